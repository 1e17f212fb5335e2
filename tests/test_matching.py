"""A hand-in goes to the one student whom everything fits, by ids first, and to nobody where there is a doubt."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.classroom.arrival import Person
from lockstep.classroom.matching import Found, Register
from lockstep.text import safe_line
from tests.downloads import class_of


def found(roster: str, person: Person) -> str:
    """The ids of the students found, or the reason that there are none."""
    match = Register(class_of(roster)).find(person)
    return " ".join(entry.student.id for entry in match.entries) if isinstance(match, Found) else match.reason


def plain(name: str) -> Person:
    """Of whom there is only what a file or folder is called."""
    return Person(id=name, name=name, email=name)


def clone(login: str) -> Person:
    """Who has cloned an assignment on GitHub."""
    return Person("github", login, id=login, name=login, email=login)


WANG_YANG = "id,first name,last name\ns1,Wang,Yang\ns2,Yang,Wang"
WANG_YANG_NUMBERS = "id,name,canvas id\ns1,Wang Yang,501\ns2,Yang Wang"
TWO = "id,name,email\ns1,John Doe,john@uni.edu\ns9,Jane Roe,roe@uni.edu"
SEVERAL = "It fits more than one on the roster: "


@pytest.mark.parametrize(
    ("roster", "person", "who"),
    [
        (WANG_YANG, Person("canvas", "501", name="yangwang"), SEVERAL),
        (WANG_YANG, Person("canvas", "502", name="wangyang"), SEVERAL),
        (WANG_YANG, Person("moodle", "501", name="Yang Wang"), SEVERAL),
        (WANG_YANG, Person("gradescope", "5", "", "Yang Wang", "yw@x.org"), SEVERAL),
        (WANG_YANG, Person("gradescope", "5", "s1", "Yang Wang", "yw@x.org"), "s1"),
        (WANG_YANG, plain("Yang Wang"), SEVERAL),
        (WANG_YANG, plain("s2"), "s2"),
        (WANG_YANG, plain("Wang_Yang_Li"), "Nobody on the roster"),
        ("id,name\n1,An Thi Le\n2,Thi An Le", Person("moodle", "5", name="Le An Thi"), "fits more than one"),
        (f"{WANG_YANG_NUMBERS},502", Person("canvas", "501", name="yangwang"), "s1"),
        (f"{WANG_YANG_NUMBERS},502", Person("canvas", "502", name="wangyang"), "s2"),
        (f"{WANG_YANG_NUMBERS},", Person("canvas", "501", name="yangwang"), "s1"),
        (f"{WANG_YANG_NUMBERS},", Person("canvas", "502", name="wangyang"), "s2"),
        ("id,name\n1,Jörg Müller\n2,Jorg Muller", Person("moodle", "5", name="Jörg Müller"), "1"),
        ("id,name\n1,Jörg Müller\n2,Jorg Muller", Person("moodle", "5", name="Jorg Muller"), "2"),
        ("id,name\n1,Jürgen Müller", Person(name="juergen mueller"), "1"),
        ("id,name\n1,Juergen Mueller", Person(name="Müller, Jürgen"), "1"),
        ("id,name\n1,Łukasz Żółć", Person("canvas", "7", name="zolclukasz"), "1"),
        ("id,name\n1,Ada de la Cruz", Person("canvas", "7", name="delacruzada"), "1"),
        ("id,name\n1,Mary Ann Lee Smith", Person("canvas", "7", name="leesmithmaryann"), "1"),
        ("id,name\n1,Zoë O’Brien-Núñez", Person(name="zoe obrien nunez"), "1"),
        ("id,name\n1,कमल", Person(name="कमला"), "Nobody on the roster has the name `कमला`."),
        ("id,name\n0012,Jane", Person(id="12"), "0012"),
        ("id,name\n12,Jane", Person(id="0012"), "12"),
        ("id,name\n1234567,Jane\n7654321,John", Person(id="lab3_1234567_final"), "1234567"),
        ("id,name\n1234567,Jane\n7654321,John", Person(id="1234567_7654321"), "fits more than one"),
        ("id,name\n2026,Jane", Person(id="lab-2026-x"), "2026"),
        (
            "id,name,email\n1,Jane,j@a.edu\n2,John,j@b.edu",
            Person(email="j"),
            "fits more than one on the roster: Jane (1), John (2)",
        ),
        ("id,name,email\n1,Jane,j@a.edu\n2,John,j@b.edu", Person(email="j", name="john"), "2"),
        ("id\njd@uni.edu", Person(id="jd", name="jd", email="jd"), "jd@uni.edu"),
        ("id,name\n1,Jane Doe", Person(name="lab3_doe_jane"), "1"),
        ("id,name\n1,Jane Doe\n2,Cher", Person(name="cher_2"), "Nobody on the roster"),
        ("id,name\n1,Jane Doe\n2,Jane Doe", Person(name="Jane Doe"), "Rename it to the student's id"),
        (
            "id,name\n1,Jane Doe\n2,Jane Doe",
            Person("canvas", "9", name="doejane"),
            "Give the roster a column `canvas id`",
        ),
        ("id,name,canvas id\n1,Jane Doe,7\n2,Jane Doe,8", Person("canvas", "8", name="doejane"), "2"),
        (
            "id,name,canvas id\n1,Jane Doe,7",
            Person("canvas", "8", name="doejane"),
            "its Canvas id `8` is another one's",
        ),
        ("id,name,canvas id\n1,Jane Doe,", Person("canvas", "8", name="doejane"), "1"),
        ("id,name\n8,Jane Doe\n9,John Roe", Person("canvas", "8", name="doejanemarie"), "8"),
        ("id,name\n8,Jane Doe\n9,John Roe", Person("canvas", "8", name="roejohn"), "9"),
        ("id,name\n8,Jane Doe\n9,John Roe", Person("canvas", "8", name="smith"), "is another one's"),
        (
            "id,name,moodle id\n1,Jane Doe,5\n2,John Roe,6",
            Person("moodle", "6", name="Jane Doe"),
            "is another one's",
        ),
        ("id,name,moodle id\n1,Jane Doe,5", Person("moodle", "5"), "1"),
        (
            "id,name\n5,Jane Doe",
            Person("moodle", "5", name="Somebody"),
            "Nobody on the roster has the Moodle id `5`",
        ),
        (
            "id,name\n1,Jane Doe",
            Person("moodle", "5", name="Jane Marie Doe"),
            "Perhaps it is Jane Doe (1)'s.",
        ),
        ("id,name,team\n1,Jane Doe,Red\n2,John Roe,red\n3,Ann Lee,blue", Person(name="RED"), "1 2"),
        ("id,name,team\n1,Jane Doe,Red 1\n2,John Roe,Red 1\n3,Ann Lee,blue", Person(name="red_1"), "1 2"),
        (
            "id,name,team,canvas id\n1,Jane,Red Fox,7\n2,John,Red Fox,8",
            Person("canvas", "8", name="redfox"),
            "1 2",
        ),
        ("id,name,team\n1,Jane Doe,Group A", Person("moodle", "5", name="Group A-Jane Doe"), "1"),
        (
            "id,name,email\n1,Jane Doe,jd@a.edu",
            Person("gradescope", "5", "77", "Jane Doe", "x@y.z"),
            "another one's",
        ),
        ("id,name,email\n1,Jane Doe,jd@a.edu", Person("gradescope", "5", "77", "Jane Doe", ""), "1"),
        (
            "id,name\n1234,Ada Lov\n77,Bob Ray",
            plain("Bob Ray 1234"),
            "fits more than one on the roster: Ada Lov (1234), Bob Ray",
        ),
        ("id,name\n1234,Ada Lov\n77,Bob Ray", plain("Ada Lov 1234"), "1234"),
        ("id,name\n1234,Ada Lov\n77,Bob Ray", plain("lab 1234"), "1234"),
        ("id,name\n1234,Ada Lov\n77,Bob Ray", plain("1234"), "1234"),
        ("id,name\ns1234,Ada Lov\ns1234-k,Bob Ray", plain("lab_s1234-k"), "fits more than one"),
        ("id,name\ns1234,Ada Lov\ns-1234,Bob Ray", plain("lab_s-1234"), "s-1234"),
        (
            "id,name,email\n1,Bob Ray,ann@y.edu\n2,Ann,",
            plain("ann"),
            "fits more than one on the roster: Bob Ray (1), Ann (2)",
        ),
        ("id,name,email\n1,Bob Ray,ann@y.edu\n2,Ann Lee,", plain("ann"), "1"),
        ("id,name,email\n1,Ann,ann@y.edu\n2,Bob,", plain("ann"), "1"),
        ("id,name,email,team\n1,Bob Ray,red@y.edu,\n2,Ann,,red", plain("red"), "fits more than one"),
        ("id,name,email,team\n1,Bob Ray,red@y.edu,red\n2,Ann,,red", plain("red"), "1"),
        (
            "id,name,moodle id\ns1,Anna Schmidt,11111\ns2,Peter Schmidt,12345",
            Person("moodle", "12345", name="Anna Schmidt"),
            "Its Moodle id `12345` is that of Peter Schmidt (s2), but its name is that of Anna Schmidt (s1).",
        ),
        (
            "id,name,moodle id\ns1,Anna Schmidt,\ns2,Peter Schmidt,12345",
            Person("moodle", "12345", name="Schmidt Anna"),
            "Peter Schmidt (s2), but its name is that of Anna Schmidt (s1)",
        ),
        (
            "id,name,moodle id,team\ns1,Anna Schmidt,11111,red\ns2,Peter Schmidt,12345,red",
            Person("moodle", "12345", name="red-Anna Schmidt"),
            "Peter Schmidt (s2), but its name is that of Anna Schmidt (s1)",
        ),
        (
            "id,name,moodle id\ns1,Anna Schmidt,11111\ns2,Anna Schmidt,12345",
            Person("moodle", "12345", name="Anna Schmidt"),
            "s2",
        ),
        (
            "id,name,moodle id\ns1,Anna Schmidt,11111\ns2,Peter Schmidt,12345",
            Person("moodle", "12345", name="Pete Schmidt"),
            "s2",
        ),
        ("id,name,moodle id\ns1,Anna Schmidt,11111\ns2,Peter Schmidt,12345", Person("moodle", "12345"), "s2"),
        (
            "id,name\n8,Jane Doe\n9,John Doe",
            Person("canvas", "9", name="doejane"),
            "Its Canvas id `9` is that of John Doe (9), but its name is that of Jane Doe (8)",
        ),
        (
            TWO,
            Person("gradescope", "5", "zz9", "John Smith", "john@gmail.com"),
            "Nobody on the roster has the id `zz9` or the address `john@gmail.com` or the name `John Smith`. "
            "Perhaps it is John Doe (s1)'s.",
        ),
        (
            TWO,
            Person("gradescope", "5", "zz9", "John Doe", "john@gmail.com"),
            "Its name is like that of John Doe (s1), but its id `zz9` is another one's.",
        ),
        (
            TWO,
            Person("gradescope", "5", "zz9", "Johnny", "john"),
            "its id `zz9` is another one's",
        ),
        (
            TWO,
            Person("gradescope", "5", "", "Johnny", "john"),
            "s1",
        ),
        (
            TWO,
            Person("gradescope", "5", "zz9", "Johnny", "John@UNI.edu"),
            "s1",
        ),
        (
            TWO,
            Person("gradescope", "5", "s1", "Johnny", "john@gmail.com"),
            "s1",
        ),
        (
            TWO,
            Person("gradescope", "5", "", "Doe, John", "john@gmail.com"),
            "s1",
        ),
        (
            TWO,
            plain("john@gmail.com"),
            "Nobody on the roster has the id `john@gmail.com` or the",
        ),
        (
            TWO,
            plain("john@gmail.com"),
            "Perhaps it is John Doe (s1)'s.",
        ),
        (TWO, plain("john@uni.edu"), "s1"),
        (TWO, plain("john"), "s1"),
        (
            TWO,
            clone("john"),
            "the GitHub name `john`",
        ),
        (
            TWO,
            clone("john"),
            "Perhaps it is John Doe (s1)'s. Give the roster a column `github`.",
        ),
        (TWO, Person("gradescope", "5", "s1", "Jane Roe", "roe@uni.edu"), SEVERAL),
        (TWO, Person("gradescope", "5", "s1", "Roe, Jane", "jane@gmail.com"), SEVERAL),
        (TWO, Person("gradescope", "5", "s1", "Janey", "roe@uni.edu"), SEVERAL),
        (TWO, Person("gradescope", "5", "zz9", "Jane Roe", "john@uni.edu"), SEVERAL),
        (TWO, Person("gradescope", "5", "s1", "Jane Roe", "john@uni.edu"), SEVERAL),
        (
            f"{TWO}\ns3,John Doe Junior,",
            Person("gradescope", "5", "s1", "John Doe Junior", "john@uni.edu"),
            "s1",
        ),
        (TWO, Person("gradescope", "5", "s1", "John Doe", "john@uni.edu"), "s1"),
        (TWO, Person("gradescope", "5", "s9", "Jane", "jane@gmail.com"), "s9"),
        ("id,name,github\ns1,Ada Lov,\ns2,Bob Ray,bob", clone("s1"), "Perhaps it is Ada Lov (s1)'s."),
        ("id,name,github\ns1,Ada Lov,\ns2,Bob Ray,bob", clone("ada-lov"), "Perhaps it is Ada Lov (s1)'s."),
        ("id,name,github\ns1,Ada Lov,s2\ns2,Bob Ray,bob", clone("s2"), "s1"),
        ("id,name,email\n0012,Ada,a@uni.edu", Person("gradescope", "5", "12", "Zoe", "z@y.org"), "0012"),
        (
            "id,name,github\ns1,Ada Lov,ada",
            clone("s1"),
            "is like that of Ada Lov (s1), but its GitHub name `s1` is another",
        ),
        ("id,name,team,github\n1,Jane,red,j\n2,John,red,r", clone("red"), "1 2"),
        ("id,name,team,github\nred,Jane,blue,\n2,John,red,r", clone("red"), "Perhaps it is Jane (red)'s."),
    ],
)
def test_whose_it_is(roster: str, person: Person, who: str) -> None:
    said = found(roster, person)
    assert said == who or (" " in who and who in said), said


NAMES = st.lists(
    st.lists(
        st.sampled_from(["Jane", "Ann", "Jörg", "Doe", "O'Neil", "de", "Müller-Lüdenscheidt", "李", "Łuc"]),
        min_size=1,
        max_size=4,
    ).map(" ".join),
    min_size=1,
    max_size=6,
)


@given(NAMES, st.randoms(use_true_random=False))
def test_a_name_in_any_order_finds_its_student_or_names_those_it_could_be(
    names: list[str], order: random.Random
) -> None:
    lines = "\n".join(f"m{number},{name}" for number, name in enumerate(names))
    register = Register(class_of(f"id,name\n{lines}"))
    for number, name in enumerate(names):
        words = name.split()
        order.shuffle(words)
        match = register.find(Person(name=" ".join(words)))
        same = [other for other, theirs in enumerate(names) if sorted(theirs.split()) == sorted(words)]
        if isinstance(match, Found):
            (entry,) = match.entries
            assert sorted(entry.student.name.split()) == sorted(name.split())
        else:
            assert len(same) > 1
            assert f"(m{number})" in match.reason or "more" in match.reason


@given(st.text(max_size=40), st.text(max_size=40))
def test_nobody_is_found_whose_id_and_name_are_others(name: str, other: str) -> None:
    register = Register(class_of("id,name,canvas id\nm100,Jane Doe,301\nm200,John Roe,302"))
    for person in (
        Person(id=name, name=other),
        Person("canvas", "399", name=name),
        Person("github", name, id=name),
    ):
        match = register.find(person)
        if isinstance(match, Found):
            assert any(
                word in f"{name} {other}".casefold()
                for word in ("jane", "john", "m100", "m200", "301", "302")
            )
        else:
            assert match.reason == safe_line(match.reason, 2000)
