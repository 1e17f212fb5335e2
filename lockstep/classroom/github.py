"""GitHub Classroom's `gh classroom clone student-repos`: one clone for each student, `assignment-login/`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from lockstep.classroom.arrival import Arrival, Item, Person, Piece, Sorted
from lockstep.classroom.names import folded
from lockstep.members import SubmissionError


def sort_github(items: Sequence[Item], logins: frozenset[str]) -> Sorted:
    """The clones among `items`, by login. `logins` are those that are known, in small letters."""
    folders = [item for item in items if item.is_folder]
    prefix = _assignment(folders, logins)
    arrivals = []
    for item in folders if prefix else []:
        if item.name.startswith(prefix) and len(item.name) > len(prefix):
            login = item.name[len(prefix) :]
            # Whoever accepts an assignment again gets a second repository with a number behind it.
            first, _, times = login.rpartition("-")
            if folded(login) not in logins and folded(first) in logins and times.isdecimal():
                login = first
            people = (Person("github", login, id=login, name=login, email=login),)
            arrivals.append(Arrival(people, (Piece(item),)))
    return Sorted(tuple(arrivals))


def _assignment(folders: Sequence[Item], logins: frozenset[str]) -> str:
    """What the names of all clones begin with; empty where these are no clones."""
    votes = Counter(
        item.name[: dash.end()]
        for item in folders
        for dash in re.finditer("-", item.name)
        if folded(item.name[dash.end() :]) in logins
    )
    if votes:
        covered = {prefix: sum(item.name.startswith(prefix) for item in folders) for prefix in votes}
        # The end of a stranger's login may be somebody's: the longer prefix would make them one.
        prefix = max(votes, key=lambda prefix: (votes[prefix], covered[prefix], -len(prefix)))
        return prefix if 2 * covered[prefix] >= len(folders) else ""
    clones = [item.name for item in folders if _is_clone(item)]
    if len(clones) < 2 or 2 * len(clones) < len(folders):
        return ""
    pairs = zip(min(clones), max(clones), strict=False)
    common = "".join(ours for ours, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return common[: common.rfind("-") + 1]


def _is_clone(item: Item) -> bool:
    """Whether a folder is a repository."""
    try:
        return any(inner.name == ".git" for inner in item.inside())
    except SubmissionError:
        return False
