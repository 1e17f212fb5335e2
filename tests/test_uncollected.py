"""No search for garbage while judges are imported, and as before afterwards."""

from __future__ import annotations

import gc

import pytest

from lockstep.uncollected import nothing_collected


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
