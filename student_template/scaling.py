"""The arithmetic of data-parallel training: batches, steps, learning rates, and what more processes buy.

`python scaling.py` prints it for 1 to 64 processes; `--help` lists what can be changed.

Sources:
    Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",
        AFIPS Spring Joint Computer Conference 1967
    Karp and Flatt, "Measuring parallel processor performance", Communications of the ACM 33(5), 1990
    Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", arXiv:1706.02677, 2017
"""

import argparse
import math
from numbers import Integral, Real

WORLD_SIZES = (1, 2, 4, 8, 16, 32, 64)


def require_count(name: str, value: int, least: int = 1) -> None:
    """Raise ValueError unless `value` is a whole number, `least` or more."""
    # TODO: raise ValueError when the value is no whole number or is too small
    raise NotImplementedError("scaling.py is not written yet")


def require_positive(name: str, value: float) -> None:
    """Raise ValueError unless `value` is a finite number above zero."""
    # TODO: raise ValueError when the value is zero or less, NaN, infinite, or no number at all
    raise NotImplementedError("scaling.py is not written yet")


def effective_batch_size(batch_size: int, world_size: int) -> int:
    """Return how many samples one step takes, with `batch_size` on each of `world_size` processes.

    Raises ValueError when either is not a whole number above zero.
    """
    # TODO: check both numbers, then return the samples of all processes together
    raise NotImplementedError("scaling.py is not written yet")


def steps_per_epoch(n_samples: int, batch_size: int, world_size: int, drop_last: bool = False) -> int:
    """Return how many steps each process makes in one epoch.

    Without `drop_last` the samples that are left over make one more, smaller step.
    Raises ValueError when a number is not a whole number above zero.
    """
    # TODO: check the numbers, then divide; round down with drop_last and up without it
    raise NotImplementedError("scaling.py is not written yet")


def scaled_lr(base_lr: float, base_batch_size: int, batch_size: int, world_size: int) -> float:
    """Return the learning rate for `batch_size` on each of `world_size` processes.

    The linear scaling rule (Goyal et al. 2017): `base_lr` suits steps of `base_batch_size` samples, and steps of
    k times as many samples take k times that. Raises ValueError for a learning rate that is not above zero and
    for sizes that are not whole numbers above zero.
    """
    # TODO: check the numbers, then scale base_lr as the samples of one step have grown
    raise NotImplementedError("scaling.py is not written yet")


def speedup(t1: float, tn: float) -> float:
    """Return how many times as fast n processes are: they take `tn` seconds, one takes `t1`.

    Below 1 they are slower. Raises ValueError when a time is not a finite number above zero.
    """
    # TODO: check the times, then return their ratio
    raise NotImplementedError("scaling.py is not written yet")


def efficiency(t1: float, tn: float, n: int) -> float:
    """Return the part of `n` processes' work that sped the training up; 1 is perfect.

    Raises ValueError when a time is not a finite number above zero, or `n` not a whole number above zero.
    """
    # TODO: check n, then return the speedup per process
    raise NotImplementedError("scaling.py is not written yet")


def amdahl_speedup(serial_fraction: float, n: int) -> float:
    """Return the speedup of `n` processes when `serial_fraction` of the work cannot be shared.

    Amdahl's law (1967): the serial part takes as long as ever, the rest an n-th of its time. The speedup stays
    below 1 / serial_fraction, however large `n` is. Raises ValueError when the fraction is not from 0 to 1 (both
    are allowed), or `n` not a whole number above zero.
    """
    # TODO: check both numbers, then return one over the time that is left
    raise NotImplementedError("scaling.py is not written yet")


def karp_flatt(speedup: float, n: int) -> float:
    """Return the serial fraction that a measured speedup of `n` processes points to.

    The metric of Karp and Flatt (1990) is Amdahl's law solved for the fraction. Where it stays the same for more
    processes, work that cannot be shared is the limit; where it grows, communication is. Raises ValueError when
    the speedup is not a finite number above zero, or `n` not a whole number above one.
    """
    # TODO: check both numbers, then return the fraction for which Amdahl's law gives that speedup
    raise NotImplementedError("scaling.py is not written yet")


def main() -> None:
    """Print the plan for one training on more and more processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=50_000, help="samples in the data set")
    parser.add_argument("--batch-size", type=int, default=32, help="samples per process and step")
    parser.add_argument("--base-lr", type=float, default=0.01, help="learning rate that suits one process")
    parser.add_argument("--serial-fraction", type=float, default=0.05, help="part of the work not shared")
    args = parser.parse_args()

    print("processes  batch  steps      lr  speedup  efficiency")
    for n in WORLD_SIZES:
        batch = effective_batch_size(args.batch_size, n)
        steps = steps_per_epoch(args.samples, args.batch_size, n)
        lr = scaled_lr(args.base_lr, args.batch_size, args.batch_size, n)
        predicted = amdahl_speedup(args.serial_fraction, n)
        share = efficiency(1.0, 1.0 / predicted, n)
        print(f"{n:9}  {batch:5}  {steps:5}  {lr:6.3g}  {predicted:7.2f}  {share:10.0%}")


if __name__ == "__main__":
    main()
