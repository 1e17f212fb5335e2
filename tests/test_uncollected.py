"""No search for garbage while judges are imported, nor in them ever after; otherwise as before."""

from __future__ import annotations

import gc

import pytest

from lockstep.uncollected import keep_for_good, nothing_collected


@pytest.mark.parametrize("was_on", [True, False])
def test_it_is_afterwards_as_it_was_before(was_on: bool) -> None:
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        with nothing_collected():
            assert not gc.isenabled()
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()


def test_what_there_is_at_first_is_left_out_of_searches_and_no_more() -> None:
    gc.unfreeze()
    try:
        there = [[number] for number in range(1000)]
        keep_for_good()
        kept = gc.get_freeze_count()
        assert kept > len(there)
        more = [[number] for number in range(1000)]
        keep_for_good()
        assert gc.get_freeze_count() < kept + len(more)
    finally:
        gc.unfreeze()
