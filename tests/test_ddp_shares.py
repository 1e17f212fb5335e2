"""Exercise 4, which images a script on two ranks reads: said only where it is seen that they are the wrong ones."""

from __future__ import annotations

import pytest

from graders.ddp_train.shares_read import epochs_read, learned_from, most_in_common, most_left_out
from lockstep.wire import Json

FIRST: list[Json] = [[0, 1], [2, 3], [4, 5], [6, 7]]  # two epochs of four images
OTHER: list[Json] = [[4, 5], [6, 7], [1, 0], [3, 2]]
ANEW: list[Json] = [[1, 2], [3, 5], [4, 5], [6, 7]]


def left_out(*ranks: Json) -> int:
    return most_left_out([epochs_read(read, 2, 4, 2, 8) for read in ranks], 8)


def in_common(*ranks: Json) -> int:
    return most_in_common(ranks, 2, 2, 8)


@pytest.mark.parametrize(
    ("other", "n"),
    [
        (OTHER, 0),
        (FIRST, 4),  # the same images on both ranks
        (ANEW, 4),
        ([[7, 0], [2, 4], *OTHER[2:]], 2),  # an order of its own
    ],
)
def test_images_that_no_rank_reads_are_counted(other: Json, n: int) -> None:
    assert left_out(FIRST, other) == n


@pytest.mark.parametrize(
    "read",
    [
        [[0, 1, 2, 3, 4, 5, 6, 7]],  # a copy in memory
        [[0, 1, 2, 3, 4, 5, 6, 7], [], [], []],
        [[0, 1, 2, 3], [4, 5], [6, 7]],  # a batch is fetched ahead
        [[0, 1, 2, 3], [4, 5], [6, 7], []],
        [[0, 1], [2, 3], [4, 5]],  # what was read once is kept
        [[0, 1], [2, 3], [4, 5], [6]],
        [[0, 1], [2], [4, 5], [6]],  # a part is kept for validation
        [[0, 1], [1, 0], [2, 3], [3, 2]],  # repeated augmentation
        [[0, 7, 1, 6], [2, 5, 3, 4], [4, 3, 5, 2], [6, 1, 7, 0]],  # each is mixed with another
        [[0, 1], [2, 9], [4, 5], [6, 7]],
        [[0, 1], [2, "3"], [4, 5], [6, 7]],
        [[0, 1], [2, None], [4, 5], [6, 7]],
        [0, 1, 2, 3, 4, 5, 6, 7],
        [],
        {},
        None,
    ],
)
def test_who_reads_in_another_way_is_not_asked(read: Json) -> None:
    assert left_out(FIRST, read) == left_out(read, FIRST) == left_out(read, read) == 0


@pytest.mark.parametrize(
    ("one", "other", "n"),
    [
        (FIRST, OTHER, 0),
        (FIRST, FIRST, 4),
        (FIRST, [[7, 0], [2, 4], *OTHER[2:]], 2),
        ([[0, 1], [2], [2, 0], [5]], [[3, 4], [5], [4, 6], [3]], 0),  # a part is kept for validation
        ([[0, 1], [2], [2, 0], [1]], [[3, 1], [2], [4, 3], [5]], 2),  # each rank keeps a part of its own
        ([[0, 1], [2], [2, 0], [1]], [[3, 2], [4], [4, 3], [5]], 1),  # to fill up the shares
    ],
)
def test_images_that_both_ranks_read_are_counted(one: Json, other: Json, n: int) -> None:
    assert in_common(one, other) == in_common(other, one) == n


@pytest.mark.parametrize(
    "read",
    [
        [[0, 1, 2, 3, 4, 5, 6, 7]],  # a copy in memory
        [[2, 3], [4, 5], [0, 1, 2, 3], [6, 7]],  # a batch is fetched ahead
        [[0, 1], [2, 3], [4, 5]],  # what was read once is kept
        [[0, 1], [2, 1], [2, 3], [3, 0]],  # drawn with replacement
        [[0], [1, 2], [3, 4], [5, 6]],
        [[0, 1], [2, 9], [4, 5], [6, 7]],
        [[0, 1], [2, "3"], [4, 5], [6, 7]],
        [0, 1, 2, 3],
        [],
        None,
    ],
)
def test_who_reads_in_another_way_has_nothing_in_common(read: Json) -> None:
    assert in_common(FIRST, read) == in_common(read, FIRST) == in_common(read, read) == 0


def test_a_first_look_at_images_is_no_part_of_an_epoch() -> None:
    assert left_out([[0, 5, 0, 1], *FIRST[1:]], OTHER) == 0
    assert in_common([[0, 5, 0, 1], *FIRST[1:]], FIRST) == 4


@pytest.mark.parametrize(
    ("learned", "numbers"),
    [
        ([[4, 0], [4, 0], [2, 0]], (10, 0)),
        ([[4, 1], [4, 4], [2, 0]], (10, 5)),
        ([[4, 0], [], [4, 4], [4, 2]], (12, 6)),  # an image was looked at before the second step
        ([[4, 4], [], []], (0, 0)),  # what is in memory is not seen
        ([[], [], []], (0, 0)),
        ([[4, None], [4, "4"], [4], 4, [0, 0]], (0, 0)),
        ([], (0, 0)),
        ({}, (0, 0)),
        (None, (0, 0)),
    ],
)
def test_images_that_are_learned_from_are_counted(learned: Json, numbers: tuple[int, int]) -> None:
    assert learned_from(learned) == numbers
