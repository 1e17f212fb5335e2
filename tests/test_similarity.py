"""Copied answers are alike, honest ones are not, even where both repeat the question and its terms."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.similarity import CHARACTERS, COPIED, similarity, words

QUESTION = "What does DistributedSampler do, which items does a rank see, and what does `set_epoch` change?"

# Different people on one question.
HONEST = {
    "terse": "The sampler splits the dataset into one part per rank so no image is used twice. set_epoch reseeds the "
    "shuffle, otherwise all epochs have the same order.",
    "long": "DistributedSampler makes sure that every process trains on its own share of the data. It shuffles the "
    "indices with a seed that is the same everywhere, pads them until they divide by the number of processes, and "
    "process r takes the indices r, r+W, r+2W and so on. Calling set_epoch adds the epoch to the seed; forget it and "
    "the network sees the batches in the same order again and again.",
    "quotes the question": QUESTION + " Each rank sees 1/N of the dataset. If you forget to call set_epoch the "
    "ordering is not changed between epochs.",
    "quotes it too": QUESTION + " It partitions the indices: a rank only loads its own slice, disjoint from the "
    "slices of others up to padding at the end. The epoch number seeds the permutation.",
    "danish": "Sampleren giver hver proces sin egen del af datasættet, så ingen billeder bruges to gange. Uden "
    "set_epoch er rækkefølgen den samme i hver epoke.",
    "wrong": "DistributedSampler sends every batch to all GPUs, and set_epoch tells the model which epoch it is in so "
    "that the learning rate can be lowered.",
    "formal": "A map-style dataset is restricted to an exclusive subset of its indices in every process of the group. "
    "Prior to each epoch one has to announce its number through set_epoch; the generator that permutes the indices "
    "starts from it, and a loop without that call iterates in one and the same order until it ends.",
}  # fmt: skip


def with_words_replaced(text: str, every: int) -> str:
    found = text.split()
    return " ".join("instead" if place % every == every - 1 else word for place, word in enumerate(found))


def with_sentences_moved(text: str) -> str:
    sentences = text.split(". ")
    random.Random(1).shuffle(sentences)
    return ". ".join(sentences)


COPIES = {
    "as it is": lambda text: text,
    "other case and punctuation": lambda text: text.upper().replace(",", " -"),
    "every sixth word replaced": lambda text: with_words_replaced(text, 6),
    "every fifth word replaced": lambda text: with_words_replaced(text, 5),
    "sentences moved": with_sentences_moved,
    "with an introduction": lambda text: (
        "In my own words, after reading the documentation carefully: " + text
    ),
    "with twice as much around it": lambda text: (
        HONEST["wrong"] + " " + text + " That is all there is to say."
    ),
    "the first half": lambda text: text[: len(text) * 6 // 10],
    "written in full width": lambda text: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text
    ),
}


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(HONEST, 2)))
def test_honest_answers_are_not_alike(a: str, b: str) -> None:
    assert similarity(HONEST[a], HONEST[b], common=QUESTION) < COPIED / 2


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", ["long", "formal", "quotes it too"])
def test_copied_answers_are_alike(name: str, how: str) -> None:
    copy = COPIES[how](HONEST[name])
    assert similarity(HONEST[name], copy, common=QUESTION) >= COPIED


def test_the_question_counts_for_nothing() -> None:
    a, b = HONEST["quotes the question"], HONEST["quotes it too"]
    assert similarity(a, b) > similarity(a, b, common=QUESTION) == 0


def test_short_answers_say_nothing() -> None:
    assert (
        similarity("It averages the gradients over all ranks.", "It averages the gradients over all ranks.")
        == 0
    )


def test_scripts_without_spaces_are_compared_by_character() -> None:
    text = "分布式采样器把数据集分成不重叠的部分，每个进程只读取自己的那一份。"
    assert len(words(text)) == 31
    assert similarity(text, "老师，" + text) == 1


def test_a_huge_text_is_cut() -> None:
    start = " ".join(f"word{number}" for number in range(3000))[:CHARACTERS]
    assert similarity(start + " a" * 1_000_000, start) == 1


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=50))
def test_similarity_is_symmetric_and_a_share(a: str, b: str, common: str) -> None:
    one, other = similarity(a, b, common=common), similarity(b, a, common=common)
    assert one == other
    assert 0 <= one <= 1
