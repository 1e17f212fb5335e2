"""The late policy: what a day costs, and what its file may say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from lockstep.classroom.latepolicy import LatePolicy, PolicyError, read_policy


@pytest.mark.parametrize(
    ("late_days", "extra_days", "penalty"),
    [
        (None, 0, 0),
        (-3.0, 0, 0),
        (0.0, 0, 0),
        (0.01, 0, 0),
        (0.5, 0, 1),
        (1.01, 0, 1),
        (2.5, 0, 3),
        (2.5, 2, 1),
        (9, 0, 5),
        (1e9, 0, 5),
        (1, 3, 0),
    ],
)
def test_late_work_loses_a_part_for_each_day_begun(
    late_days: float | None, extra_days: float, penalty: float
) -> None:
    policy = LatePolicy(percent_per_day=10, max_percent=50, grace_days=0.02)
    assert policy.penalty(10.0, late_days, extra_days) == pytest.approx(penalty)


def test_a_day_to_the_minute_is_one_day() -> None:
    policy = LatePolicy(percent_per_day=10, grace_days=1 / 24)
    for hours in range(24 * 30):
        days_begun = -(-(hours - 1) // 24) if hours > 1 else 0
        assert policy.penalty(1.0, hours / 24) == pytest.approx(min(days_begun, 10) / 10), hours


def test_never_more_is_taken_off_than_there_is() -> None:
    assert LatePolicy(percent_per_day=100, max_percent=100).penalty(7.0, 30.0) == 7.0


def _write(folder: Path, text: str) -> Path:
    path = folder / "late.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_whole_policy(tmp_path: Path) -> None:
    text = """
[late]
percent_per_day = 10
max_percent = 50.0
grace_hours = 6
deadline = 2026-05-01T23:59:00+02:00
"""
    deadline = datetime(2026, 5, 1, 23, 59, tzinfo=timezone(timedelta(hours=2)))
    policy = read_policy(_write(tmp_path, text))
    assert policy == LatePolicy(10.0, 50.0, 0.25, deadline)
    assert LatePolicy.from_json(policy.to_json()) == policy


def test_every_key_may_be_left_out(tmp_path: Path) -> None:
    assert read_policy(_write(tmp_path, "[late]\n")) == LatePolicy()
    only = read_policy(_write(tmp_path, "[late]\ndeadline = 2026-05-01 20:00:00Z\n[other]\nx = 1\n"))
    assert only == LatePolicy(deadline=datetime(2026, 5, 1, 20, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no table [late] with lines such as percent_per_day = 10"),
        ("late = 3", "has no table [late]"),
        ("[late", "is no TOML: "),
        (
            "[late]\npercent = 10",
            "[late] knows no key 'percent'; it may have percent_per_day, max_percent, grace_hours, deadline",
        ),
        ("[late]\npercent_per_day = 101", "percent_per_day is a number from 0 to 100, not 101"),
        ("[late]\npercent_per_day = -1", "percent_per_day is a number from 0 to 100, not -1"),
        ("[late]\nmax_percent = nan", "max_percent is a number from 0 to 100, not nan"),
        ("[late]\nmax_percent = inf", "max_percent is a number from 0 to 100, not inf"),
        ("[late]\nmax_percent = true", "max_percent is a number from 0 to 100, not true"),
        ('[late]\ngrace_hours = "2"', "grace_hours is a number from 0 to 8760, not '2'"),
        ("[late]\ngrace_hours = [2]", "grace_hours is a number from 0 to 8760, not a list"),
        (
            '[late]\ndeadline = "2026-05-01T23:59:00+02:00"',
            "deadline is a time, written without quotation marks",
        ),
        (
            "[late]\ndeadline = 2026-05-01",
            "deadline is a day with its time and time zone, such as 2026-05-01T23:59:00+02:00",
        ),
        ("[late]\ndeadline = 23:59:00", "deadline is a day with its time"),
        (
            "[late]\ndeadline = 2026-05-01T23:59:00",
            "has no time zone; write 2026-05-01T23:59:00+02:00, or Z for UTC",
        ),
    ],
)
def test_a_policy_that_does_not_say_what_it_must(tmp_path: Path, text: str, said: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(PolicyError) as refused:
        read_policy(path)
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        read_policy(tmp_path / "nosuch.toml")
    (tmp_path / "latin.toml").write_bytes("[late] # früh".encode("latin-1"))
    with pytest.raises(PolicyError, match="is not UTF-8"):
        read_policy(tmp_path / "latin.toml")


def test_a_byte_order_mark_is_no_part_of_a_policy(tmp_path: Path) -> None:
    path = tmp_path / "late.toml"
    path.write_text("[late]\npercent_per_day = 10\n", encoding="utf-8-sig")
    assert read_policy(path).percent_per_day == 10
