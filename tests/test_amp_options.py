"""The grader of exercise 6 on options of the script that are otherwise, and nobody's mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graders.amp.script_clipping import refuses
from graders.amp.search_precision import low_steps_alone
from graders.amp.search_report import larger_than_fits
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Json
from tests.amp_scripts import result

AMP = '    parser.add_argument("--amp", default=True, action=argparse.BooleanOptionalAction)\n'
CHOICE = """\
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--amp", action="store_true")
    group.add_argument("--no-amp", dest="amp", action="store_false")
"""
CLIP = '    parser.add_argument("--grad-clip", type=float, metavar="NORM", help="default: do not clip")\n'
DIGITS = """\
    def norm(word):
        if not word.replace(".", "", 1).isdigit():
            raise ValueError(word)
        return float(word)

    parser.add_argument("--grad-clip", type=norm)
"""


@pytest.mark.parametrize(
    "option",
    [
        CHOICE,
        AMP.replace("True", "torch.cuda.is_available()"),
        '    parser.add_argument("--amp", action="store_true", default=True)\n'
        '    parser.add_argument("--no-amp", dest="amp", action="store_false")\n',
    ],
    ids=["is asked for", "of GPUs alone", "the old way"],
)
def test_amp_may_be_chosen_otherwise(option: str, tmp_path: Path, box: Box) -> None:
    assert result(tmp_path, box, "autocast_on", AMP, option).points == 1


def test_float16_on_a_cpu_is_told_and_costs_nothing(tmp_path: Path, box: Box) -> None:
    forward = "    with torch.autocast(device.type, enabled=amp):\n        logits = model(images)\n"
    new = forward.replace("device.type", "device.type, dtype=torch.float16")
    found = result(tmp_path, box, "autocast_on", forward, new)
    assert found.points == 1
    assert "On a CPU train_step computes in float16" in found.message


@pytest.mark.parametrize(
    "option",
    [
        DIGITS,
        "    # the template's '--grad-clip' is a constant here\n    parser.set_defaults(grad_clip=None)\n",
    ],
    ids=["digits alone", "no option"],
)
def test_a_norm_may_be_read_otherwise(option: str, tmp_path: Path, box: Box) -> None:
    assert result(tmp_path, box, "clip_is_unscaled", CLIP, option).points == 1


BACKWARD: Json = [["loss", 2.3], ["backward", False, 2.3]]


@pytest.mark.parametrize(
    ("status", "events", "output", "refused"),
    [
        (2, [], "error: argument --grad-clip: invalid int value: '1e-6'", True),
        (2, None, "", True),
        (0, [], "", False),
        (None, [], "", False),
        ("2", [], "", False),
        # It went wrong later, as in its validation.
        (1, BACKWARD, "", False),
        (2, [], "amp_train.py: error: unrecognized arguments: --grad-clip 1e-6", False),
        (2, [], "Error: No such option: --grad-clip Did you mean --clip?", False),
        (2, [], "amp_train.py: error: unrecognized arguments: 1e-6", True),
    ],
)
def test_a_norm_is_refused_by_a_script_that_trains_on_nothing(
    status: Json, events: Json, output: str, refused: bool
) -> None:
    seen = RankOutcome(True, {"status": status, "events": events}, {}, output=output)
    assert refuses(seen) is refused


def searched(types: Json, steps: Json) -> RankOutcome:
    """What is seen of a search on one kind of device."""
    return RankOutcome(True, {"search_types": types, "step_types": steps}, {})


FULL: Json = ["torch.float32"]
BF16: Json = ["torch.bfloat16"]
FP16: Json = ["torch.float16"]


@pytest.mark.parametrize(
    ("on_cpu", "on_gpu", "low"),
    [
        (searched(FULL, BF16), searched(FULL, FP16), "bfloat16 and float16"),
        (searched(FULL, FULL), searched(FULL, FP16), "float16"),
        (searched(BF16, BF16), searched(FP16, FP16), ""),
        # Autocast for GPUs alone, in the search or in everything.
        (searched(FULL, BF16), searched(FP16, FP16), ""),
        (searched(FULL, FULL), searched(FP16, FP16), ""),
        # And for a CPU alone.
        (searched(BF16, BF16), searched(FULL, FULL), ""),
        # That train_step has no AMP is for autocast_on to say.
        (searched(FULL, FULL), searched(FULL, FULL), ""),
        (searched(FULL, BF16), None, ""),
        (searched(FULL, BF16), searched(None, None), ""),
        (searched([], BF16), searched([], FP16), ""),
        (searched(FULL, 7), searched(FULL, [None, 3]), ""),
    ],
)
def test_a_search_may_compute_as_the_steps_do(
    on_cpu: RankOutcome, on_gpu: RankOutcome | None, low: str
) -> None:
    assert low_steps_alone(on_cpu, on_gpu) == low


def told(trials: object, *claims: object) -> str:
    """A report of a search."""
    return json.dumps({"batch_search": trials, "claims": claims})


def trial(batch_size: object, ok: object) -> dict[str, object]:
    """What a report says of one size."""
    return {"precision": "bf16-amp", "batch_size": batch_size, "ok": ok}


def claim(value: object, unit: str = "images") -> dict[str, object]:
    """The largest batch, as a report claims it."""
    return {"what": "max_batch", "config": {}, "value": value, "unit": unit}


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (told([trial(160, True), trial(161, False)], claim("160")), None),
        # Whoever leaves some room claims less.
        (told([trial(128, True)], claim("144")), None),
        (told([trial(160, True), trial(161, True)], claim("160")), "a trial with 161 images"),
        (told([trial(160, True), trial(161, False)], claim("161")), "of 161 images"),
        (told([], claim("320")), "of 320 images"),
        (told([], claim("170.5", "MiB"), claim("many"), claim(None), claim(320), claim("nan")), None),
        (told([trial("161", True), trial(161, 1), trial(None, True), [161, True], 7]), None),
        (told({"161": True}), None),
        (told(None), None),
        ("[]", None),
        ("no report", None),
        (None, None),
        ({"batch_search": [trial(161, True)]}, None),
    ],
)
def test_a_report_tells_no_batch_as_fitting_that_does_not(report: Json, words: str | None) -> None:
    found = larger_than_fits(report, 160)
    assert (found is None) if words is None else (found is not None and words in found)
