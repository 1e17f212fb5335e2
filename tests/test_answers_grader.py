"""The grader of exercise 10: headings in every form, what is an answer, and numbers that are one's own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures import build
from fixtures.reports.handed_in import honest
from graders.answers import test_answers as judge
from graders.answers.measured import FILES, Kind, Reports, headlines, read_reports
from graders.answers.quotes import CHARACTERS, quotes
from graders.answers.rubric import questions
from graders.answers.sections import MAX_BYTES, Section, decode, parse
from graders.answers.substance import FEWEST_WORDS, own_text, same_text, why_nothing
from lockstep.check import Check, Setting
from lockstep.cli import exit_status
from lockstep.exercise import load_exercise
from lockstep.grading import Options, Silent, grade
from lockstep.result import Result
from lockstep.sandbox.box import Box
from lockstep.submission import Submission
from lockstep.verdict import CheckEnded, Verdict
from tests.effort import costs_at_most
from tests.samples import graded

EXERCISE = "answers"
SAMPLES = build.all_submissions(EXERCISE)
REFERENCE = (build.ROOT / "reference" / "answers.md").read_text()
TEMPLATE = (build.ROOT / "student_template" / "answers.md").read_text()
ANSWER = "All ranks average their gradients while backward is still running, so replicas stay equal."
MEASURED = build.ROOT / "fixtures" / "submissions" / "answers" / "correct" / "measured" / "reports"
ALL = [question.number for question in questions()]


def test_the_reference_is_told_nothing(box: Box) -> None:
    result = graded(build.ROOT / "reference", EXERCISE, box)
    assert [check.message for check in result.exercises[0].checks] == ["", ""]
    assert exit_status(result) == 0


def test_of_the_template_nothing_is_left_to_be_marked(box: Box) -> None:
    result = graded(build.ROOT / "student_template", EXERCISE, box)
    assert [check.verdict for check in result.exercises[0].checks] == [Verdict.FAILED, Verdict.NOT_CHECKED]
    assert not any(review.waits for review in result.exercises[0].reviews)


def test_a_missing_answer_fails_a_self_check_though_it_costs_nothing(tmp_path: Path, box: Box) -> None:
    (tmp_path / "answers.md").write_text("## Q1\n")
    result = graded(tmp_path, EXERCISE, box)
    assert (exit_status(result), result.points, result.max_points) == (1, 0, 0)


# What a person gets


def test_a_person_gets_answer_rubric_and_numbers_side_by_side(tmp_path: Path, box: Box) -> None:
    measured = build.build(_sample("measured"), tmp_path / "work")
    (exercise,) = graded(measured, EXERCISE, box).exercises
    assert [review.question for review in exercise.reviews] == [f"Q{number}" for number in ALL]
    assert sum(review.max_points for review in exercise.reviews) == 10
    assert all(review.waits and review.look_for and review.duplicate is None for review in exercise.reviews)
    sixth = exercise.reviews[5]
    assert sixth.answer.startswith("I measured a speed-up of 1.40")
    assert sixth.words > 30
    assert "1.41x for world_size 2 over world_size 1, batch 64" in sixth.numbers
    assert any("(mean of 3)" in number for number in sixth.numbers)
    assert exercise.reviews[0].numbers == ()


def test_a_self_check_does_not_tell_what_earns_the_points(tmp_path: Path, box: Box) -> None:
    measured = build.build(_sample("measured"), tmp_path / "work")
    options = Options(submission=measured, exercises=(EXERCISE,), self_check=True)
    (exercise,) = grade(options, Silent(), box).exercises
    assert {review.look_for for review in exercise.reviews} == {""}
    assert all(review.answer for review in exercise.reviews)


def test_a_text_that_answers_several_questions_is_marked_as_such(tmp_path: Path, box: Box) -> None:
    pasted = build.build(_sample("one_answer_for_all"), tmp_path / "work")
    reviews = graded(pasted, EXERCISE, box).exercises[0].reviews
    assert [review.duplicate for review in reviews] == [None, *["the same text as Q1"] * 7]


def test_what_a_student_writes_reaches_the_result_without_control_characters(
    tmp_path: Path, box: Box
) -> None:
    (tmp_path / "answers.md").write_text(
        f"## Q1\n{ANSWER} \x1b[2J\u202egnp.exe\x00 [bold]x[/bold] <script>\n"
    )
    (exercise,) = graded(tmp_path, EXERCISE, box).exercises
    assert exercise.reviews[0].answer == f"{ANSWER} gnp.exe [bold]x[/bold] <script>"
    assert ANSWER[:20] not in " ".join(check.message for check in exercise.checks)


def _sample(name: str) -> build.Sample:
    return next(sample for sample in SAMPLES if sample.name == name)


# The rubric, and the files made by it


def test_the_rubric_gives_ten_points() -> None:
    assert list(range(1, 9)) == ALL
    assert sum(question.points for question in questions()) == 10
    assert load_exercise(build.ROOT / "graders" / EXERCISE).by_person == 10
    for question in questions():
        assert question.points % 0.5 == 0
        assert question.title.endswith("?")
        assert question.look_for.count("0.5") + question.look_for.count("0.25") >= 2
        assert set(question.reports) <= FILES.keys()


@pytest.mark.parametrize("text", [REFERENCE, TEMPLATE], ids=["reference", "template"])
def test_the_reference_asks_what_the_rubric_asks(text: str) -> None:
    for question in questions():
        assert f"## {question.name} {question.title}\n\n> {question.prompt}\n" in text


def test_the_reference_would_stay_true_on_another_machine() -> None:
    """It quotes no reading; so its reports can be measured again."""
    sections = parse(REFERENCE, questions()).sections
    assert [quote.text for number in ALL for quote in quotes(sections[number].told)] == []


# Headings


def _found(text: str) -> list[int]:
    return sorted(parse(text, questions()).sections)


@pytest.mark.parametrize(
    "heading",
    [
        "## Q1",
        "## Q1 What does it do?",
        "## Q1: What does it do?",
        "## Q1. What",
        "## Q1) What",
        "## Q1 - What",
        "# Q1.",
        "###### q1",
        "## Q 1",
        "## Q-1",
        "## Q01",
        "## Q#1",
        "## Question 1",
        "## QUESTION 1: What?",
        "## Question #1",
        "## Q1a) The first half",
        "## **Q1**",
        "## **Q1** What?",
        "## [Q1](#q1)",
        "## `Q1`",
        "## Exercise 10, Q1",
        "## Answer 1",
        "## A1",
        "## Spørgsmål 1",
        "## Opgave 1",
        "## Frage 1:",
        "## Q1 ##",
        "   ## Q1",
        "> ## Q1",
        "Q1 What does it do?\n===",
        "Q1\n---",
        "## 1",
        "## 1. What",
        "## 1) What",
        "## What does the DistributedDataParallel wrapper do?",
        "## What does the DistributedDataParallel (DDP) wrapper do",
        "##Q1",
        "##Q1 What?",
        "**Q1**",
        "**Q1: What?**",
        "__Q1__",
        "Q1:",
        "Q1. What?",
        "- **Q1**",
        "＃＃ Q1",
        "\u200b## Q1",
        "## Q\u200b1",
        "<h2>Q1</h2>",
        '<h3 id="q1">Q1: What does it do?</h3>',
        "<details><summary>Q1 What?</summary>",
        "<b>Q1</b>",
        "*Q1*",
        "`Q1`",
        "[Q1]",
    ],
)
def test_many_a_heading_is_that_of_a_question(heading: str) -> None:
    answers = parse(f"# Answers\n\nSome words before.\n\n{heading}\n\n{ANSWER}\n", questions())
    assert list(answers.sections) == [1], heading
    assert ANSWER in answers.sections[1].text
    assert "Some words before" not in answers.sections[1].said


@pytest.mark.parametrize(
    "text",
    [
        "```\n## Q1\n```",
        "~~~markdown\n## Q1\n~~~",
        "    ## Q1",
        "<!-- ## Q1 -->",
        "<!--\n## Q1\n-->",
        "The answer to Q1 is below.",
        "## Q10",
        "## Q1st",
        "## Quality 1",
        "## Quick 1",
        "## 2024",
        "## Level 1",
        "## 1.87x faster",
        "| Q1 | Q2 |\n|---|---|\n| a | b |",
        "\\## Q1",
        "<!--\n<h2>Q1</h2>\n-->",
        "<p>Q1</p>",
    ],
)
def test_what_is_no_heading_of_a_question(text: str) -> None:
    assert _found(f"{text}\n\n{ANSWER}\n") == []


def test_a_number_alone_is_a_heading_only_where_no_other_is() -> None:
    text = f"## Q1\n{ANSWER}\n### 2. In `backward`\n{ANSWER}\n## Q3\n{ANSWER}\n"
    assert _found(text) == [1, 3]
    assert _found(text.replace("Q", "")) == [1, 2, 3]


@pytest.mark.parametrize(
    "heading",
    [
        "问题{}",
        "问题 {}：",
        "第{}题",
        "質問{}",
        "Вопрос {}",
        "Вопрос №{}",
        "Pytanie {}",
        "Réponse {}",
        "Question n° {}",
        "Answer to question {}",
        "Antwort auf Frage {}: was sie tun",
        "Task {}",
        "{} - What",
        "{}/8",
        "10.{} What",
        "Lab 10 Q{}",
        "Ｑ{}",
        '<a name="q{}"></a>Q{}',
    ],
)
def test_headings_that_are_alike_but_for_their_numbers_are_those_of_questions(heading: str) -> None:
    def text(numbers: Iterable[object]) -> str:
        return "".join(f"## {heading.replace('{}', str(number))}\n\n{ANSWER}\n\n" for number in numbers)

    assert _found(text(ALL)) == ALL
    assert _found(text([1, 3, 5, 8])) == [1, 3, 5, 8]
    assert _found(text([1, 2, 3])) == []
    assert _found(f"## Q2\n\n{ANSWER}\n\n{text(ALL)}") in ([2], ALL)


@pytest.mark.parametrize("numerals", ["一二三四五六七八", "①②③④⑤⑥⑦⑧", "１２３４５６７８", "١٢٣٤٥٦٧٨"])
def test_numerals_of_any_script_count(numerals: str) -> None:
    assert _found("".join(f"## 问题{numeral}\n\n{ANSWER}\n\n" for numeral in numerals)) == ALL


def test_what_stands_behind_a_heading_in_tags_is_its_answer() -> None:
    answers = parse("<b>Q1</b> one\ntwo\n\n<h2>Q2: Why?</h2>\nthree\n\nfour\n", questions())
    assert {number: section.said.split() for number, section in answers.sections.items()} == {
        1: ["one", "two"],
        2: ["three", "four"],
    }


def test_parts_and_repeated_headings_are_one_answer() -> None:
    answers = parse("## Q4a\nRANK\n## Q4b\nLOCAL_RANK\n## Q1\nx\n## Q4 again\nWORLD_SIZE\n", questions())
    assert answers.sections[4].text.split() == ["RANK", "LOCAL_RANK", "WORLD_SIZE"]


def test_headings_that_are_none_in_markdown_are_told() -> None:
    (remark,) = parse(f"##Q2\n{ANSWER}\n\n**Q1** {ANSWER}\n", questions()).remarks
    assert remark == "No Markdown heading: Q1, Q2. Write `## Q2` on a line of its own."


def test_paragraphs_with_several_bold_questions_are_taken_apart() -> None:
    answers = parse("Hello\n**Q1: Why?** one\ntwo\n**Q2** three\n## Q3\nfour\n", questions())
    assert {number: section.said.split() for number, section in answers.sections.items()} == {
        1: ["one", "two"],
        2: ["three"],
        3: ["four"],
    }


def test_a_section_is_shown_whole_and_compared_by_what_it_states() -> None:
    text = (
        "## Q1\n<!-- 1.1x -->\nWe saw [1.2x](http://x/9.9x) ![1.3x](a.png).\n\n> quoted 1.4x\n\n"
        "```\nprint('1.5x')\n```\n\n<b>1.6x</b>\n\n| 1.7x |\n"
    )
    section = parse(text, questions()).sections[1]
    assert [quote.text for quote in quotes(section.told)] == ["1.2x", "1.6x", "1.7x"]
    assert "print('1.5x')" in section.said
    assert "<!--" not in section.text
    assert "![1.3x](a.png)" in section.text
    assert (section.pictures, section.comments) == (1, "1.1x")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_any_editor_will_do(end: str, encoding: str) -> None:
    data = "## Spørgsmål 1\n\nAlle venter på den langsomste.\n".replace("\n", end).encode(encoding)
    text, named = decode(data)
    assert bool(named) == (not encoding.startswith("utf-8"))
    assert parse(text, questions()).sections[1].text == "Alle venter på den langsomste."


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from(" \n#*_>-`~<!Q1234a.|[]()\t$"), max_size=300))
def test_any_text_can_be_taken_apart(text: str) -> None:
    answers = parse(text, questions())
    for section in answers.sections.values():
        for question in questions():
            assert why_nothing(section, question) is None or why_nothing(section, question)
        quotes(section.told)


@given(
    st.from_regex(r"[0-9][0-9.,' e-]{0,12}", fullmatch=True),
    st.sampled_from(["x", " s", " images/s", " GB", " %", ""]),
)
def test_no_number_is_too_odd(number: str, unit: str) -> None:
    for quote in quotes(f"The speedup, the efficiency, the largest batch: {number}{unit} and so on"):
        assert all(np.isfinite(value) and place > 0 for value, place in quote.readings)


HUGE = {
    "headings": "# Q1\n",
    "bold": "**Q1** a\n",
    "plain": "Q1: a\n",
    "quotations": ">",
    "lists": "* ",
    "brackets": "![[",
    "links": "[a](",
    "tags": "<a ",
    "comments": "<!--",
    "numbers": "1.8x ",
    "groups": "111 ",
    "seconds": "speedup 1,87 s of ",
    "dots": ".... ",
    "words": "word ",
    "one line": "x",
    "blanks": " ",
}


@pytest.mark.parametrize("unit", HUGE)
def test_a_hostile_file_takes_seconds_at_most(unit: str) -> None:
    text = f"## Q6\n{HUGE[unit] * (MAX_BYTES // len(HUGE[unit]))}"[:MAX_BYTES]
    with costs_at_most(200):
        for section in parse(text, questions()).sections.values():
            why_nothing(section, questions()[5])
            quotes(section.told)


# What is an answer


def _said(text: str, number: int = 1) -> str | None:
    return why_nothing(
        parse(f"## Q{number}\n\n{text}\n", questions()).sections[number], questions()[number - 1]
    )


@pytest.mark.parametrize(
    "text",
    [
        ANSWER,
        "Den sørger for at gradienterne midles over alle processer.",
        "Er verteilt die Gradienten und mittelt sie über alle Prozesse.",
        "它在反向传播时对所有进程的梯度求平均。",
        "勾配を全プロセスで平均し、複製を同じに保つ。",
        "Градиенты всех процессов усредняются во время обратного прохода модели.",
        "```\nit averages the gradients of all ranks in backward\n```",
        "> it averages the gradients of all ranks in backward",
        "- averages gradients\n- during backward\n- all ranks equal afterwards",
        "| when | what |\n|---|---|\n| wrapping | weights of rank 0 are sent |\n| backward | gradients averaged |",
        "<p>It averages the gradients of all ranks in backward.</p>",
        "What does the DistributedDataParallel wrapper do? It averages all gradients in `backward`, on every rank.",
        "I still have to do the measurement (TODO), but it averages gradients over all ranks.",
        TEMPLATE.split("## Q1")[1].split("## Q2")[0].partition("\n")[2] + ANSWER,
    ],
)  # fmt: skip
def test_an_answer_in_any_language_and_form(text: str) -> None:
    assert _said(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no answer"),
        ("<!-- -->", "no answer"),
        ("---", "no answer"),
        ("...", "a placeholder and no answer"),
        ("???", "a placeholder and no answer"),
        ("TODO", "a placeholder and no answer"),
        ("*Your answer here*", "a placeholder and no answer"),
        ("Write your answer here.", "a placeholder and no answer"),
        ("todo: ask the others", "a placeholder and no answer"),
        ("Yes.", "no more than 1 different word"),
        ("yes " * 50, "no more than 1 different word"),
        ("It syncs.", "no more than 2 different words"),
        ("![x](y.png)", "a picture and no text"),
        ("Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod", "filler text"),
        ("Dolore magna aliquyam erat, sed diam voluptua. At vero eos et accusam et justo", "filler text"),
        ("What does the DistributedDataParallel wrapper do?", "the question and nothing more"),
        ("In forward and in backward, when the model is wrapped, who sends what to whom?", "the question and nothing more"),
        (f"<!-- {ANSWER} -->", "an answer inside a comment, `<!-- -->`, which no reader sees"),
    ],
)  # fmt: skip
def test_what_is_no_answer(text: str, why: str) -> None:
    assert _said(text) == why


@pytest.mark.parametrize("number", ALL)
def test_the_template_holds_no_answer(number: int) -> None:
    section = parse(TEMPLATE, questions()).sections[number]
    assert why_nothing(section, questions()[number - 1]) == "no answer"
    assert own_text(section.text, questions()[number - 1]) == ""


def test_the_prompt_stays_out_of_what_a_person_reads() -> None:
    section = parse(TEMPLATE.replace("<!-- TODO: your answer -->", ANSWER), questions()).sections[2]
    assert own_text(section.text, questions()[1]) == ANSWER


def test_answers_to_different_questions_are_different_texts() -> None:
    assert same_text(parse(REFERENCE, questions()).sections, questions()) == []
    twice = {1: Section(said=ANSWER), 2: Section(said=ANSWER.upper()), 3: Section(said="Another.")}
    assert same_text(twice, questions()) == [[1, 2]]
    assert same_text({1: Section(), 2: Section()}, questions()) == []


# Numbers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The speed-up is 1.87x.", ["1.87x"]),
        ("1.87 ×", ["1.87 ×"]),
        ("a speedup of 1.6 on two", ["speedup 1.6"]),
        ("Speedup: 1.60", ["speedup 1.60"]),
        ("The speedup on 2 processes was 1.43", ["speedup 1.43"]),
        ("1.4 times as fast", ["1.4 times"]),
        ("1,43 gange hurtigere", ["1,43 gange"]),
        ("Der Speedup beträgt 1,43.", ["speedup 1,43"]),
        ("61.4 s", ["61.4 s"]),
        ("5,3 s", ["5,3 s"]),
        ("5.3 ± 0.2 s", ["5.3 ± 0.2 s", "0.2 s"]),
        ("12.5 ms per batch", ["12.5 ms"]),
        ("1.5 min", ["1.5 min"]),
        ("512 images/s", ["512 images/s"]),
        ("9,416 samples per second", ["9,416 samples per second"]),
        ("an efficiency of 87 %", ["87 %"]),
        ("87% efficiency", ["87%"]),
        ("efficiency 0.87", ["efficiency 0.87"]),
        ("peak memory 11.2 GB", ["11.2 GB"]),
        ("The largest batch that fits is 512", ["batch size 512"]),
        ("CPU utilisation 97 %, efficiency 80 %.", ["80 %"]),
        ("Efficiency with two GPUs: 95 %", ["95 %"]),
        ("L'efficacité est de 95 %", ["95 %"]),
        ("efficiency fell from 99 % to 80 %", ["99 %"]),
        ("1.78x less memory and 1.95x as fast", ["1.78x", "1.95x"]),
        ("| 2 | 38.9 s | 1.43x |", ["38.9 s", "1.43x"]),
        # Not a measurement, or not certainly one's own.
        ("The profiler's overhead aside, the speed-up is 1.87x.", ["1.87x"]),
        ("Each step sends all gradients: a speedup of 1.43", ["speedup 1.43"]),
        # Evidence that no report holds.
        ("torch.profiler shows 41.2 ms of nccl all-reduce and 182.5 ms of backward in every step.", []),
        ("ResNet-18 has 44.7 MB of gradients, that are sent in buckets of 25.0 MB.", []),
        ("nccl-tests gives 12.1 ms for 44.7 MB on our two cards.", []),
        ("In the trace from nsys the all-reduce takes 38.5 ms.", []),
        ("From a second sitting with gradient accumulation of 4: 1.88x.", []),
        ("Starting them costs 6.31 s that are not in the report, and reading the data set 3.42 s.", []),
        ("below 2x", []),
        ("efficiency fell from 100 % to 80 %, from 1.0 to 0.8", ["80 %"]),
        ("The speedup is 0.39 below 2.", []),
        ("The efficiency suffers since the CPU is at 97 %.", []),
        ("The coefficient of variation is 4.2 %, so efficiency says little.", []),
        ("Memory: 11.2 to 6.3, that is 1.78x less", []),
        ("twice, 2x faster, 3 times", []),
        ("below the ideal of 2.0x", []),
        ("1.95x would be ideal", []),
        ("I expect 3.1x on four GPUs", []),
        ("The DDP paper reports 1.87x.", []),
        ("According to NVIDIA it is 3.26x.", []),
        ("With Amdahl's law 1.6x follows.", []),
        ("at most 1.9x", []),
        ("> 1.9x", []),
        ("1.3-1.5x", []),
        ("1.3 to 1.5x", []),
        ("2 x T4, 2x2 nodes, 3 x 1.5", []),
        ("torch 2.15.0, CUDA 12.4, ResNet-18", []),
        ("accuracy 87 %", []),
        ("29 % faster", []),
        ("after 3 s or 10 min in all", []),
        ("timeout of 30 s", []),
        ("at 10:30, on 2026-11-21, in v1.5x", []),
        ("a batch of 64 on 2 GPUs", []),
        ("loss 1.46, lr 0.001", []),
        ("10 Gb/s, 1.5 GB/s", []),
        ("45.2 samples", []),
        ("1,234.567.890 s", []),
    ],
)
def test_measured_numbers_are_told_from_others(text: str, found: list[str]) -> None:
    assert [quote.text for quote in quotes(text)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # How far apart two shares are.
        ("The efficiency drops by 19.7 percentage points to 80.3 percent.", ["80.3 percent"]),
        ("The efficiency drops by 19.7 % points.", []),
        ("Die Effizienz sinkt um 19,7 Prozentpunkte auf 80,3 Prozent.", ["80,3 Prozent"]),
        ("Effektiviteten falder 19,7 procentpoint.", []),
        ("The efficiency drops by 19.7 percent.", ["19.7 percent"]),
        # The number of something else.
        ("The speedup was measured with a learning rate of 0.1 and momentum 0.9.", []),
        ("The efficiency of gloo in torch 2.5 is not what I thought.", []),
        ("For the speedup torch 2.5 was used.", []),
        ("The speedup is poor, the learning rate was 0.1.", []),
        ("The growth_factor is 2.0 and the backoff factor of 0.5 follows.", []),
        ("The speedup is poor, the efficiency is 0.71.", ["efficiency 0.71"]),
        # Bounds.
        ("4 processes could reach a speedup of 2.3 at best.", []),
        ("A speedup of 2.3 at best.", []),
        ("We did not reach a speedup of 1.9.", []),
        ("The network sends too much, which caps the speedup at 4.1.", []),
        ("Vier Prozesse könnten einen Speedup von 2,3 erreichen.", []),
        # Said of the word in many a form.
        ("Two processes reach a speedup of 1.87", ["speedup 1.87"]),
        ("As one can see the speedup is 1.87", ["speedup 1.87"]),
        ("**Speedup:** 1.60", ["speedup 1.60"]),
        ("The speedup is **1.43**", ["speedup 1.43"]),
        ("Speedup (2 processes): 1.60", ["speedup 1.60"]),
        ("Speedup = T1 / T2 = 1.43", ["speedup 1.43"]),
        ("The speedup from one process to two is clearly 1.43", ["speedup 1.43"]),
        ("The speedup, on two processes, is only 1.87", ["speedup 1.87"]),
        ("The speedup we measured is about 1.87", ["speedup 1.87"]),
        ("For the speedup we get 1.87", ["speedup 1.87"]),
        ("Der Speedup von zwei Prozessen liegt bei etwa 1,62", ["speedup 1,62"]),
        ("Hastighedsforøgelsen er 1,43", ["speedup 1,43"]),
        ("speedup and efficiency are 1.43", ["speedup 1.43"]),
        ("efficiency fell from 0.99 to 0.80", ["efficiency 0.99"]),
        ("The efficiency loss is 0.30", ["efficiency 0.30"]),
    ],
)
def test_a_number_without_a_unit_belongs_to_the_word_it_is_said_of(text: str, found: list[str]) -> None:
    assert [quote.text for quote in quotes(text)] == found


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("9,416 images/s", [9416, 9.416]),
        ("21.170 billeder/s", [21.17, 21170]),
        ("21 170 images/s", [21170]),
        ("1,234.5 s", [1234.5]),
        ("1,134,969 images/s", [1134969]),
        ("1.134.969 images/s", [1134969]),
        ("1.234,5 s", [1234.5]),
        ("12.5 ms", [0.0125]),
        ("2.5 min", [150]),
        ("2.0 GiB", [2e9, 2**31]),
        ("8.5e-05 s", [8.5e-5]),
    ],
)
def test_numbers_are_read_every_way_they_can_be_meant(text: str, values: list[float]) -> None:
    (quote,) = quotes(text)
    assert sorted(value for value, _ in quote.readings) == pytest.approx(sorted(values))


def _measured(kind: str) -> Any:
    return json.loads((MEASURED / FILES[kind]).read_text())


def _submission(reports: Mapping[str, Any], answers: str = "") -> Submission:
    files = {f"reports/{FILES[kind]}": json.dumps(report).encode() for kind, report in reports.items()}
    return Submission("work", {**files, "answers.md": answers.encode()}, frozenset(), "", ())


def _sentences(report: Any) -> list[str]:
    """What an honest author writes: any statistic, cut or rounded to any precision."""
    kind = report["report"]
    reports = read_reports(_submission({kind: report}))
    texts = [
        f"It has {claim['value']}{unit}."
        for claim in report["claims"]
        for what, unit in {
            "mean_s": " s",
            "median_s": " s",
            "speedup": "x",
            "throughput_ips": " images/s",
        }.items()
        if claim["what"] == what
    ]
    for figure in reports.figures[kind]:
        if figure.topic is not None:
            continue
        if figure.kind is Kind.RATIO:
            texts += [f"It is {figure.value:.{digits}f}x." for digits in (1, 2, 3)]
            texts.append(f"It is {int(figure.value * 100) / 100:.2f} times as fast.")
        elif figure.kind is Kind.SHARE:
            texts.append(f"The efficiency is {100 * figure.value:.0f} %.")
        elif figure.kind is Kind.RATE and figure.value > 10:
            texts += [
                f"We get {figure.value:,.0f} images/s.",
                f"About {float(f'{figure.value:.2g}'):.0f} images/s.",
            ]
    return texts


@pytest.mark.parametrize("kind", ["dp_inference", "ddp_scaling", "amp", "dataloader"])
def test_honest_numbers_are_never_asked_about(kind: str) -> None:
    (question,) = [question for question in questions() if kind in question.reports]
    for seed in range(10):
        report = honest(kind, np.random.default_rng(seed))
        reports = read_reports(_submission({kind: report}))
        texts = _sentences(report)
        for text in random.Random(seed).sample(texts, min(len(texts), 150)):
            compared = judge.compare(question, Section(told=text), reports)
            assert not compared.odd, (seed, text, headlines(reports.figures[kind]))


@pytest.mark.parametrize("kind", ["ddp_scaling", "amp"])
def test_most_made_up_speedups_are_asked_about(kind: str) -> None:
    (question,) = [question for question in questions() if kind in question.reports]
    seen = total = 0
    for seed in range(20):
        reports = read_reports(_submission({kind: honest(kind, np.random.default_rng(seed))}))
        for speedup in np.random.default_rng(seed).uniform(1.05, 3.9, 20):
            total += 1
            compared = judge.compare(question, Section(told=f"The speed-up was {speedup:.2f}."), reports)
            seen += compared.contradicts
    assert seen > 0.6 * total


@pytest.mark.parametrize(
    ("text", "contradicts", "odd"),
    [
        ("A speed-up of 1.87.", True, 1),
        ("A speed-up of 1.87, and 1.40x when I repeated it.", False, 1),
        ("One epoch took 77.7 s.", False, 1),
        ("One epoch took 77.7 s, then 55.5 s.", True, 2),
        ("A speed-up of 1.40.", False, 0),
        ("Slower than I thought, since the gradients are sent every step.", False, 0),
        ("The largest batch was 512.", False, 1),
    ],
)
def test_one_number_among_others_or_a_lone_time_contradicts_nothing(
    text: str, contradicts: bool, odd: int
) -> None:
    reports = read_reports(_submission({"ddp_scaling": _measured("ddp_scaling")}))
    compared = judge.compare(questions()[5], Section(told=text), reports)
    assert (compared.contradicts, len(compared.odd)) == (contradicts, odd)


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        ("The loss of efficiency is 30 %.", 0),
        ("The efficiency is 30 %.", 1),
        ("It is 1.43x short of the ideal.", 0),
        ("The speed-up is 1.43x.", 0),
        ("Two processes are 1.22 times as fast as one.", 1),
    ],
)
def test_what_is_lost_is_no_efficiency_and_no_speedup(text: str, odd: int) -> None:
    reports = read_reports(_submission({"ddp_scaling": _measured("ddp_scaling")}))
    assert len(judge.compare(questions()[5], Section(told=text), reports).odd) == odd


@pytest.mark.parametrize(
    "text",
    [
        "Each process does {each:.1f} images/s, together {both:.1f} images/s.",
        "The loss of efficiency is {lost:.0f} %.",
        "It falls short of 2 by a factor of {short:.2f}.",
        "A step takes {longer:.2f} times as long, so {shorter:.2f}x per step.",
        "The slowest epoch took {spread:.3f} times as long as the fastest.",
        "The epochs vary by {range:.2f} s; in all, two processes save {saved:.1f} s.",
    ],
)
def test_what_follows_from_two_configurations_is_known(text: str) -> None:
    report = _measured("ddp_scaling")
    one, two = (
        [float(run["wall_s"]) for run in report["runs"] if run["config"]["world_size"] == world]
        for world in (1, 2)
    )
    first, second = (
        next(run for run in report["runs"] if run["config"]["world_size"] == world) for world in (1, 2)
    )
    rate, speedup = second["samples"] * len(two) / sum(two), sum(one) / sum(two)
    steps = sum(two) / second["steps"] / (sum(one) / first["steps"])
    said = text.format(
        each=rate / 2, both=rate, lost=100 - 50 * speedup, short=2 / speedup, longer=steps, shorter=1 / steps,
        spread=max(one) / min(one), range=max(two) - min(two), saved=sum(one) - sum(two),
    )  # fmt: skip
    reports = read_reports(_submission({"ddp_scaling": report}))
    compared = judge.compare(questions()[5], Section(told=said), reports)
    assert compared.quotes
    assert compared.odd == []


def test_steps_that_do_not_add_up_to_their_run_may_be_quoted() -> None:
    report = _measured("ddp_scaling")
    run = report["runs"][0]
    step = 0.4 * float(run["wall_s"]) / run["steps"]
    run["step_s"] = [repr(step * (1 + 0.001 * place)) for place in range(min(run["steps"], 9))]
    reports = read_reports(_submission({"ddp_scaling": report}))
    told = Section(told=f"A step took {step * 1.004:.6f} s, the steps together {step * 9.036:.6f} s.")
    assert judge.compare(questions()[5], told, reports).odd == []
    told = Section(told=f"A step took {step * 2:.6f} s.")
    assert len(judge.compare(questions()[5], told, reports).odd) == 1


def _ddp(one: float, two: float) -> Reports:
    """The figures of a report whose runs took so long on one process and on two; 32 images a batch."""
    report = _measured("ddp_scaling")
    report["claims"] = report["claims"][:1]
    for run in report["runs"]:
        seconds = two if run["config"]["world_size"] == 2 else one
        run["wall_s"] = repr(seconds * (1 + 0.001 * run["rep"]))
        run["config"]["batch_per_rank"] = 32
        run["peak_alloc_bytes"] = 612_345_678
    return read_reports(_submission({"ddp_scaling": report}))


FAST, SLOW = (100.0, 61.0), (60.0, 97.0)


@pytest.mark.parametrize(
    ("text", "seconds", "contradicts", "odd"),
    [
        # Bytes are of many things.
        ("The weights are 44.7 MB, of which 25.0 MB go first.", FAST, False, 2),
        ("It sends 44.7 MB in 38.5 ms.", FAST, False, 2),
        ("It sends 44.7 MB in 38.5 ms, and waits for 12.5 ms.", FAST, True, 3),
        # Measured besides, with another batch.
        ("I repeated it with batch size 128 per process: then the speedup is 1.91x.", FAST, False, 0),
        ("With a batch of 128 each the speedup is 1.91x.", FAST, False, 0),
        ("With batch size 32 the speedup is 1.91x.", FAST, True, 1),
        ("The speedup is 1.91x.", FAST, True, 1),
        # A gain where the report has a loss.
        ("I measured a speedup of 1.61x with two processes over one process, an efficiency of 81 %.", SLOW, True, 2),
        ("The speedup on two processes is 1.62x, because communication overlaps with backward.", SLOW, True, 1),
        ("With two processes an epoch takes 60.1 s, with one 97.1 s, so the speedup is 1.62x.", SLOW, False, 1),
        ("The speedup on two processes is 1.64x.", FAST, False, 0),
        ("The speedup on two processes is 0.62x.", SLOW, False, 0),
        ("Two processes are 1.62 times slower; no speedup at all.", SLOW, False, 0),
        ("There is no speedup: two processes take 1.62 times as long.", SLOW, False, 0),
        ("One process is 1.62x faster than two processes.", SLOW, False, 0),
        ("The speedup of one process over two processes is 1.62x.", SLOW, False, 0),
        ("From two processes to one the speedup is 1.62x.", SLOW, False, 0),
        ("The speedup of two processes is a loss of 1.62x.", SLOW, False, 0),
        ("Time went up 1.6-fold: two processes are 0.62 times as fast as one.", SLOW, False, 0),
        ("The speedup is 1.62x if you leave out one of the two processes.", SLOW, False, 0),
        ("The single process is faster, by a factor of 1.62.", SLOW, False, 0),
        ("Der Speedup von zwei Prozessen auf einen ist 1,62.", SLOW, False, 0),
    ],
)  # fmt: skip
def test_bytes_other_batches_and_gains(
    text: str, seconds: tuple[float, float], contradicts: bool, odd: int
) -> None:
    compared = judge.compare(questions()[5], Section(told=text), _ddp(*seconds))
    assert (compared.contradicts, len(compared.odd)) == (contradicts, odd), compared


def test_numbers_of_other_reports_may_be_quoted() -> None:
    kinds = {kind: _measured(kind) for kind in ("ddp_scaling", "dp_inference")}
    text = Section(told="DataParallel gives 0.146x.")
    assert judge.compare(questions()[5], text, read_reports(_submission(kinds))).odd == []
    alone = read_reports(_submission({"ddp_scaling": kinds["ddp_scaling"]}))
    assert judge.compare(questions()[5], text, alone).contradicts


def test_two_reports_of_a_kind_count_both() -> None:
    one, other = _measured("ddp_scaling"), _measured("ddp_scaling")
    other["claims"] = other["claims"][:1]
    for run in other["runs"]:
        if run["config"]["world_size"] == 2:
            run["wall_s"] = str(float(run["wall_s"]) / 2)
    files = {
        "reports/ddp.json": json.dumps(one).encode(),
        "reports/ddp_nvlink.json": json.dumps(other).encode(),
    }
    found = read_reports(Submission("work", files, frozenset(), "", ()))
    assert found.files == {"ddp_scaling": "reports/ddp.json"}
    for text in ("A speed-up of 1.40.", "A speed-up of 2.81."):
        assert judge.compare(questions()[5], Section(told=text), found).odd == []


def test_a_report_by_another_name_is_found_by_what_it_says() -> None:
    report = (MEASURED / "ddp.json").read_bytes()
    for path in ("reports/ddp.json", "Reports/DDP_final.json", "ddp.json", "work/reports/x.json"):
        found = read_reports(Submission("work", {path: report}, frozenset(), "", ()))
        assert found.files == {"ddp_scaling": path}
    assert read_reports(Submission("work", {"config.json": report}, frozenset(), "", ())) == Reports(
        {}, {}, ()
    )


ODD_REPORTS: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[1, 2]",
    "deep": b"[" * 100_000,
    "binary": bytes(range(256)) * 100,
    "NaN": b'{"schema": "perf-report/1", "runs": [NaN]}',
    "another format": b'{"schema": "other"}',
}


@pytest.mark.parametrize("name", ODD_REPORTS)
def test_a_report_that_is_none_is_told_and_compared_with_nothing(name: str) -> None:
    text = f"## Q1\n{ANSWER}\n## Q6\nThe speed-up was 1.87x, because {ANSWER}\n"
    submission = replace(
        _submission({}, text), files={"answers.md": text.encode(), "reports/ddp.json": ODD_REPORTS[name]}
    )
    check = _check(submission, "grounded")
    judge.test_grounded(check)
    assert check.notes == (
        "The numbers of Q6 were compared with nothing: no report `reports/ddp.json`. Not valid: `reports/ddp.json`.",
    )


def test_a_report_of_the_largest_size_takes_seconds_at_most() -> None:
    report = _measured("ddp_scaling")
    run = report["runs"][0]
    report["runs"] = [
        {**run, "config": {**run["config"], "batch_per_rank": 1 + number % 60}, "rep": number}
        for number in range(1000)
    ]
    text = "".join(
        f"## Q{number}\n{ANSWER} The speed-up was {number}.87x. " + "9.87x. " * 500 + "\n" for number in ALL
    )
    check = _check(_submission({"ddp_scaling": report}, text), "grounded")
    with costs_at_most(400), pytest.raises(CheckEnded):
        judge.test_grounded(check)


def test_the_template_says_how_short_an_answer_may_be() -> None:
    words = {8: "eight different words"}[FEWEST_WORDS]
    for file in ("answers.md", "README.md"):
        text = (build.ROOT / "student_template" / file).read_text()
        assert words in " ".join(text.split())


def test_a_file_that_is_too_large_is_told_once() -> None:
    check = _check(_submission({}, "x" * (MAX_BYTES + 1)), "present")
    with pytest.raises(CheckEnded, match="more than 64 KiB is not read") as ended:
        judge.test_present(check)
    assert ended.value.spoils
    assert check.reviews == ()


def test_only_so_much_of_an_answer_is_searched_for_numbers() -> None:
    assert quotes("a " * (CHARACTERS // 2) + "1.87x") == []


def test_questions_without_reports_may_quote_anything(tmp_path: Path, box: Box) -> None:
    text = REFERENCE.replace("## Q2", "It is 9.99x as fast and takes 99.9 s.\n\n## Q2")
    measured = build.build(_sample("measured"), tmp_path / "work")
    (measured / "answers.md").write_text(text)
    result: Result = graded(measured, EXERCISE, box)
    assert [check.verdict for check in result.exercises[0].checks] == [Verdict.PASSED, Verdict.PASSED]


def _check(submission: Submission, name: str) -> Check:
    exercise = load_exercise(build.ROOT / "graders" / EXERCISE)
    setting = Setting(box=None, submission=submission, seed=1, world_sizes=(2,), self_check=False)  # type: ignore[arg-type]
    return Check(setting, exercise, exercise.check(name))
