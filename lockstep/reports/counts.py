"""What a configuration comes to, in processes, images of a step, GPUs and machines; and what a run is called."""

from __future__ import annotations

from lockstep.jsontext import Json
from lockstep.reports.document import Config, Group, Report, Run

DEVICES = {"dp_inference": "n_devices", "ddp_scaling": "world_size", "lightning": "devices"}
"""Which setting counts the devices, by kind of report; of Lightning those of each machine."""
GROWN = frozenset({"ddp_scaling", "lightning"})
"""Reports that several calls write, one for each number of devices, each with the GPUs that it was given."""


def process_count(report: Report, run: Run) -> int:
    """Processes that a run trains in."""
    if report.kind == "ddp_scaling":
        return number(run.config.get("world_size"))
    if report.kind == "lightning":
        return devices_of_all(run.config)
    # Nothing in the configuration says that a training with AMP was distributed; its runs do.
    return max(1, len(run.rank_samples)) if report.kind == "amp" else 1


def images_per_step(report: Report, run: Run) -> int | None:
    """Images that all processes together see in one step."""
    batch = run.config.get("batch_per_rank" if report.kind == "ddp_scaling" else "batch_size")
    return number(batch) * process_count(report, run) if isinstance(batch, int | float) else None


def ways_to_count_steps(report: Report, run: Run) -> tuple[int, ...]:
    """Images of one step, by what may be counted as one: a forward pass, or the step of an optimizer after several."""
    per_step = images_per_step(report, run)
    if per_step is None:
        return ()
    accumulated = number(report.setting(run.config, "grad_accum") or 1)
    return (per_step, per_step * accumulated) if accumulated > 1 else (per_step,)


def gpus_needed(report: Report, config: Config) -> int | None:
    """GPUs that a configuration needs; None where it runs on the CPU, or need not have a GPU for itself."""
    if report.kind == "dp_inference":
        count = number(config.get("n_devices"))
        return count if report.gpus or count > 1 else None
    if report.kind == "ddp_scaling":
        return number(config.get("world_size")) if config.get("backend") == "nccl" else None
    if report.kind == "lightning":
        # "gpu" is whatever there is: on a Mac that is Metal, and torch.cuda knows of none.
        on_mac = str(report.env.get("os", "")).lower().startswith(("darwin", "mac"))
        on_cuda = config.get("accelerator") in (("cuda",) if on_mac else ("cuda", "gpu"))
        return devices_of_all(config) if on_cuda else None
    return None


def machine_count(config: Config) -> int:
    """Machines that a configuration uses."""
    return number(config.get("nnodes", config.get("num_nodes", 1)))


def devices_of_all(config: Config) -> int:
    """Devices that a configuration of Lightning uses, whose `devices` are those of each machine."""
    return number(config.get("devices", 1)) * machine_count(config)


def device_count(report: Report, config: Config) -> int | None:
    """Devices that a configuration is said to use; None in a report whose configurations do not say it."""
    if report.kind == "lightning":
        return devices_of_all(config)
    count = report.setting(config, DEVICES.get(report.kind, ""))
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None


def whole_seconds(report: Report) -> float:
    """What t_start and t_end may be off by: 1 where all of them are whole seconds, which F14 mentions, otherwise 0."""
    moments = (moment for run in report.runs for moment in (run.t_start, run.t_end))
    return 1.0 if all(moment == int(moment) for moment in moments) else 0.0


def number(value: Json) -> int:
    """A number of a configuration as a count; 1 for what is none."""
    return int(value) if isinstance(value, int | float) else 1


def of_run(report: Report, run: Run) -> str:
    """A run as findings call it: where it stands in the file, and what it is."""
    return f"runs[{run.index}] ({Group(run.config, (run,)).name}, rep {run.rep})"
