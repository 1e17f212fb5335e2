"""The judge of exercise 3, the wrapper: nn.DataParallel around a hidden model.

Several GPUs are emulated: real scatter, replicas and gather, on tensors that refuse to mix devices. What comes
out is held against the bare model, computed here.
"""

from __future__ import annotations

from graders.data_parallel import expected
from graders.data_parallel.crashes import CRASHES, observe
from graders.data_parallel.noted import totals
from lockstep.check import Check
from lockstep.compare import difference, elements, shown
from lockstep.wire import Json

# Sums over other blocks of the same numbers differ by about 1e-7 of their size.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
WRAP_HINT = "make_data_parallel has to return nn.DataParallel(model, device_ids=device_ids)."


def test_is_data_parallel(check: Check) -> None:
    """make_data_parallel returns an nn.DataParallel around the given model, over the given devices."""
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    devices = [int(device) for device in check.rng.permutation(3)]
    bare_without_gpu = False
    for gpus, asked in ((0, [None]), (3, [None, devices[:2], devices[2:]])):
        seen = observe(
            check,
            "wrap",
            values={"shape": shape, "gpus": gpus, "device_ids": asked},
            arrays=expected.as_inputs(weights),
        ).ranks[0]
        answers = [answer for answer in elements(seen.values.get("wrapped")) if isinstance(answer, dict)]
        for device_ids, wrapped in zip(asked, [*answers, *[{}] * len(asked)], strict=False):
            if gpus == 0 and wrapped.get("kind") == "the bare model":
                bare_without_gpu = True
                continue
            _wraps_the_model(check, wrapped)
            found = wrapped.get("device_ids")
            wanted = list(range(gpus)) if device_ids is None else device_ids
            call = f"make_data_parallel(model{'' if device_ids is None else f', {device_ids}'})"
            check.expect(
                gpus == 0 or found == wanted,
                f"{call} on a machine with {gpus} GPUs works on the devices {_listed(found)}, expected {wanted}.",
                "Pass the argument on: nn.DataParallel(model, device_ids=device_ids); with None it takes all GPUs there are. "
                "Numbers that are written out fit one machine only.",
                points=check.points / 2,
            )
            # Whether the function moves them at all is its own business.
            places = wrapped.get("weights")
            check.expect(
                gpus == 0 or places == ["cpu"] or places == [f"cuda:{wanted[0]}"],
                f"{call} on a machine with {gpus} GPUs put the model's weights on {_listed(places)}. nn.DataParallel wants "
                f"them on the first of its devices, cuda:{(wanted or [0])[0]}, and raises otherwise.",
                'parallel.to(f"cuda:{parallel.device_ids[0]}") fits every list of devices.',
                points=check.points / 2,
            )
    check.expect(
        not bare_without_gpu,
        "make_data_parallel(model) on a machine without a GPU returned the bare model, expected an nn.DataParallel.",
        "nn.DataParallel needs no `if`: without a GPU it hands every batch to the model, and what comes back has a "
        "`.module` on every machine.",
        points=check.points / 2,
    )


def _wraps_the_model(check: Check, wrapped: dict[str, Json]) -> None:
    kind, inner = wrapped.get("kind"), wrapped.get("inner")
    if wrapped.get("parallel") is not True:
        check.fail(
            f"make_data_parallel(model) returned {kind[:80] if isinstance(kind, str) else 'something else'}, expected "
            "an nn.DataParallel around the model.",
            CRASHES["process group"] if kind == "a DistributedDataParallel" else WRAP_HINT,
        )
    if inner != "the model":
        what = inner[:80] if isinstance(inner, str) else "something else"
        hints = {
            "a class": "nn.DataParallel(FashionCNN) takes a class without a word; wrap the model that is passed in.",
            "a DataParallel": "One nn.DataParallel is enough: a second one would split what is split already.",
        }
        check.fail(
            f"make_data_parallel(model) returned an nn.DataParallel, but not around the model: its `.module` is {what}.",
            hints.get(
                what,
                f"Wrap the very model that is passed in, neither a copy nor one of your own. {WRAP_HINT}",
            ),
        )


def _listed(found: Json) -> str:
    return f"[{', '.join(shown(item) for item in found[:8])}]" if isinstance(found, list) else "of no list"


def test_same_output(check: Check) -> None:
    """On a machine without a GPU the wrapped model gives the model's own outputs, for batches of any size."""
    sizes = [
        int(size) for size in check.rng.permutation([1, 2, 8, *check.rng.choice([3, 5, 7, 9, 11], 2, False)])
    ]
    # Many wrap the model only where there are several GPUs; what that costs is another check's business.
    if _same(check, sizes, gpus=0) is None and _same(check, sizes, gpus=2) is None:
        check.fail("make_data_parallel(model) returned no nn.DataParallel that could be tried.", WRAP_HINT)


def test_splits_like_devices(check: Check) -> None:
    """On several GPUs (emulated where there are none) every batch is split, and the outputs are the model's own."""
    for gpus in (2, 3):
        sizes = [
            int(size)
            for size in check.rng.permutation([1, 2, gpus + 1, 6, *check.rng.choice([5, 7, 9, 11], 2, False)])
        ]
        parts = _same(check, sizes, gpus)
        if parts is None:
            check.fail(
                "make_data_parallel(model) returned no nn.DataParallel that could be tried.", WRAP_HINT
            )
        for size, places in zip(sizes, parts, strict=True):
            check.expect(
                size == 1 or len(places) > 1,
                f"On {gpus} GPUs a batch of {size} images was not split: the model saw it on "
                f"{', '.join(sorted(places)) or 'no GPU'} alone.",
                "The wrapper shares out a batch to its device_ids, to all GPUs where they are None. Return the nn.DataParallel "
                "itself and leave its forward as it is: the model inside, `.module`, knows of one GPU only.",
            )


def _same(check: Check, sizes: list[int], gpus: int) -> list[dict[str, int]] | None:
    """Hold the wrapped model's outputs against the bare model's; return the rows that each device saw, by batch.

    None where there is no wrapped model.
    """
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    batches = expected.make_batches(check.rng, shape, sizes)
    seen = observe(
        check,
        "forward",
        values={"shape": shape, "gpus": gpus},
        arrays={**expected.as_inputs(weights), **batches},
    ).ranks[0]
    if seen.values.get("parallel") is not True:
        return None
    kinds, parts = seen.values.get("kinds"), seen.values.get("parts")
    place = f"on {gpus} GPUs" if gpus else "on a machine without a GPU"
    found = []
    for (name, batch), size in zip(batches.items(), sizes, strict=True):
        kind = kinds.get(name) if isinstance(kinds, dict) else None
        output = seen.arrays.get(name)
        call = f"The wrapped model {place}, given a batch of {size} (the batches had {', '.join(map(str, sizes))} images)"
        check.expect(
            output is not None,
            f"{call}, returned {kind[:80] if isinstance(kind, str) else 'nothing'}, expected a tensor.",
            "nn.DataParallel gathers the parts' outputs in order, along the batch: return what it returns.",
        )
        problem = difference(output, expected.outputs(shape, weights, batch), what="the output", **CLOSE)
        check.expect(
            problem is None,
            f"{call}: {problem}, held against the bare model.",
            _why_different(gpus, len(output) if output is not None and output.ndim else 0, size),
        )
        rows = totals(parts.get(name) if isinstance(parts, dict) else None)
        check.expect(
            gpus == 0 or sum(rows.values()) == size,
            f"{call}: the model saw {sum(rows.values())} images.",
            "Every image goes through the model once.",
        )
        found.append(rows)
    return found


def _why_different(gpus: int, rows: int, size: int) -> str:
    if gpus:
        return (
            "Each GPU sees a part of the batch, in a replica that ends with the call. What forward keeps in `self`, in a list or "
            "in a closure is lost, or that of one part; and only gather knows the order of the parts."
        )
    if rows != size:
        return "A batch may have any size, one image among them: nothing is cut off, filled up or squeezed."
    return "Return what the model returns, as it is."
