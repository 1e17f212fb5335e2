"""Every student gets a name of their own that every file system can hold, whatever they are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockstep.classroom.people import Student
from lockstep.classroom.slug import slugs
from lockstep.members import check_name, twin_key

HOSTILE = [
    "../x", "..", ".", "", "/etc/passwd", "C:\\x", "con", "CON.txt", "nul", "com1", "😀", "😁", "a" * 300, "a" * 299 + "b",
    "jane", "Jane", "JANE", "jane.zip", "jane ", "jane.", "\u202ejane", "jane\u200e", "a\nb", "a\0b", "-rf", "ä", "a\u0308",
    "李小龙", "\ud800", "é" * 200, "<script>", "=1+1", "jane_1", "_con", "straße", "strasse",
]  # fmt: skip


def named(*ids: str) -> dict[str, str]:
    return dict(slugs(Student(student) for student in ids))


def orderly(names: dict[str, str]) -> bool:
    for name in names.values():
        check_name(name)
        assert "/" not in name
        assert not name.startswith((".", "-", " "))
        assert not name.endswith((".", " "))
    return len({twin_key(name) for name in names.values()}) == len(names)


def test_an_ordinary_id_is_its_own_name() -> None:
    ids = ("m100", "jane.doe", "Jörg Müller", "李小龙")
    assert sorted(named(*ids).values()) == ["Jörg_Müller", "jane.doe", "m100", "李小龙"]


def test_hostile_ids_get_names_that_all_systems_can_hold() -> None:
    names = named(*HOSTILE)
    assert set(names) == set(HOSTILE)
    assert orderly(names)


def test_names_that_some_systems_take_for_one_are_told_apart() -> None:
    names = named("Jane", "jane", "JANE", "john")
    assert names["john"] == "john"
    assert len({name.casefold() for name in names.values()}) == 4
    assert names == named("john", "JANE", "jane", "Jane")
    # Whoever is called like somebody else's name with a hash does not get that folder.
    taken = named("Jane", "jane", names["jane"])
    assert orderly(taken)


@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(HOSTILE)), max_size=20, unique=True))
def test_any_ids_have_orderly_names_that_do_not_depend_on_order(ids: list[str]) -> None:
    names = named(*ids)
    assert orderly(names)
    assert names == named(*reversed(ids)) == named(*sorted(ids))
