"""Exercise 1: a lazy image data set, judged on hidden trees of faces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from graders.lfw_dataset import faces
from graders.lfw_dataset.looks import (
    EVERY_WAY,
    Look,
    difference,
    known,
    looks,
    number,
    prints_of,
    problem_text,
    text,
)
from graders.lfw_dataset.raised import raised_hint
from graders.lfw_dataset.robustness import trials
from graders.lfw_dataset.script_runs import (
    Complaint,
    empty_complaint,
    help_complaint,
    told_once,
    visualize_complaint,
)
from graders.lfw_dataset.script_timing import timing_complaint
from lockstep.check import Check
from lockstep.compare import elements
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded, Failed, NotChecked
from lockstep.wire import Json

FACES = "/data/faces/"
LAZY_IMAGES = 150  # more than a cache of the usual size keeps
LAZY_PEOPLE = 40
LAZY_ITEMS = 2000  # LFW has 13,233; a process may open about 1,000 files
PATH_HINT = (
    "Search the folder in `path_to_folder`, not one that is written into the file, and build paths with os.path.join or "
    r"pathlib: separators such as `\\` only work on Windows."
)

# A part of a check: what is wrong with it, None where nothing is.
Part = Callable[[Check], Complaint | None]


def observe(check: Check, call: str, **given: Any) -> RankOutcome:
    """Run a probe in one process."""
    return check.run(call, **given).ranks[0]


def require_items(items: list[Look]) -> None:
    """End as not checked where a good folder gives no item at all."""
    if all(look.kind == "IndexError" for look in items):
        raise NotChecked("The data set is empty on a folder with images.", "Mend length first.")


def no_image(check: Check) -> NoReturn:
    """End as failed where no item at all is an image, in the same words whatever was looked for: it is one cause."""
    check.fail("No item is an image of the folder.", hint="Mend items_are_images first.")


def test_constructs(check: Check) -> None:
    """`LFWDataset(path, transform)` finds the images of the folder it is given, however that is spelled."""
    names = ("faces", "faces_slash", "relative", "relative_slash")
    paths = ("/data/faces", "/data/faces_slash/", "relative", "relative_slash/")
    trees = [faces.make_tree(check.rng, people=2, images=int(check.rng.integers(3, 7))) for _ in names]
    data = {name: tree.files for name, tree in zip(names, trees, strict=True)}
    try:
        said = observe(check, "constructs", data=data, values={"paths": list(paths)}).values.get("attempts")
    except CheckEnded as ended:
        ended.spoils = True
        raise
    attempts = [seen if isinstance(seen, dict) else {} for seen in elements(said)]
    problems: dict[str, str] = {}
    raised: dict[str, object] = {}
    for name, path, tree, seen in zip(names, paths, trees, [*attempts, {}, {}, {}, {}], strict=False):
        opened = {file.removeprefix(f"/data/{name}/") for file in _strings(seen.get("opened"))}
        if not opened & tree.files.keys() and not known(looks([seen.get("first")]), prints_of(tree)):
            saw = "dataset[0]" if seen.get("made") is True else "it"
            problem, raised[path] = problem_text(seen.get("problem")), seen.get("problem")
            saw = f"{saw} raised {problem}" if problem else f"{saw} opened no image of it"
            problems[path] = f'`LFWDataset("{path}", transform)` on a folder of {tree.count} images: {saw}.'
    if problems:
        path, problem = next(iter(problems.items()))
        hint = _spelling_hint([path in problems for path in paths])
        failed = Failed(check.placed(problem), hint or raised_hint(raised[path], check.submission, PATH_HINT))
        failed.spoils = not any(seen.get("made") is True for seen in attempts)
        raise failed


def _spelling_hint(failed: list[bool]) -> str:
    """What to do where some spellings of a path work and others do not."""
    if failed == [True, False, True, False]:
        return (
            "With a slash at the end of the path it works, so the path is glued together with +: use "
            "os.path.join(folder, name) or Path(folder) / name."
        )
    if failed == [False, False, True, True]:
        return "Absolute paths work, relative ones do not: use the path as it is given, put nothing in front."
    return ""


def test_length(check: Check) -> None:
    """`len(dataset)` is the number of images in the folder."""
    trees = [faces.make_tree(check.rng, 4, int(check.rng.integers(11, 19))) for _ in range(2)]
    data = {f"faces{number}": tree.files for number, tree in enumerate(trees)}
    seen = observe(check, "length", data=data, values={"paths": [f"/data/{name}/" for name in data]})
    lengths = elements(seen.values.get("lengths"))
    for length, tree in zip([*lengths, None, None], trees, strict=False):
        folder = f"a folder of {tree.count} images of {tree.people} people"
        if type(length) is not int:
            kind = text(length.get("type")) if isinstance(length, dict) else str(length)[:20]
            check.fail(
                f"`__len__` returned {kind or 'nothing'} for {folder}; expected an int.",
                hint="`return len(...)` of the list of files. Without `return` a function returns None.",
            )
        if length == 0:
            check.fail(
                f"The data set is empty: `len(dataset)` is 0 for {folder}.",
                hint="Nothing was found and nothing was said. Print the pattern or folder that `__init__` "
                "searches; images lie one level below the folder: FOLDER/Person_Name/Person_Name_0001.jpg.",
            )
        if length == tree.people:
            hint = "That is the number of people: count the files in their folders, not the folders."
        elif abs(length - tree.count) == 1:
            hint = "One off: a +1 or -1 too many, or the first or last file left out."
        else:
            hint = "Return the length of the list of image files that `__getitem__` indexes."
        check.expect(length == tree.count, f"`len(dataset)` is {length} for {folder}.", hint=hint)
    count_odd_names(check)


def count_odd_names(check: Check) -> None:
    """End the check, with half of its points, where images are lost to their names."""
    names = faces.make_odd_names(check.rng)
    (image,) = faces.plain_images(check.rng, 1)
    data = {"names": dict.fromkeys(names, image)}
    try:
        lengths = observe(check, "length", data=data, values={"paths": ["/data/names/"]}).values.get(
            "lengths"
        )
    except CheckEnded as ended:
        ended.points = check.points / 2
        raise
    length = number(lengths[0]) if isinstance(lengths, list) and len(lengths) == 1 else None
    if length != len(names):
        people = dict.fromkeys(name.split("/")[0] for name in names)
        check.fail(
            f"`len(dataset)` is {length or 0:.0f} for a folder of {len(names)} images of {', '.join(people)}, the last "
            f"of them with images up to {names[-1].split('/')[1]}.",
            hint="Take every .jpg file of every folder. LFW has names of one word and of five, with hyphens, and "
            "George_W_Bush_0530.jpg: a pattern for names loses some of them.",
            points=check.points / 2,
        )


def test_items_are_images(check: Check) -> None:
    """Every image of the folder is an item, once, as the tensor that the transform makes of it."""
    tree = faces.make_tree(check.rng, people=5, images=int(check.rng.integers(13, 18)))
    orders = [list(range(tree.count)), check.rng.permutation(tree.count).tolist()]
    seen = observe(check, "items", data={"faces": tree.files}, values={"path": FACES, "orders": orders})
    passes = seen.values.get("passes")
    first, second = map(looks, passes) if isinstance(passes, list) and len(passes) == 2 else ([], [])
    if len(first) != tree.count or len(second) != tree.count:
        check.fail("The items did not come back as they were read.", hint="Does the file replace built-ins?")
    require_items(first)
    if wrong := difference(first, tree):
        check.fail(wrong.message, hint=wrong.hint)
    again = {index: look.digest for index, look in zip(orders[1], second, strict=True)}
    changed = [index for index, look in enumerate(first) if again[index] != look.digest]
    if changed:
        check.fail(
            f"Read a second time, in another order, {len(changed)} of {tree.count} items were other images "
            f"(dataset[{changed[0]}] is one).",
            hint="dataset[i] must always be image i: no iterator that moves on, no file that stays open and "
            "is used up, nothing shuffled inside `__getitem__`.",
        )
    if any(look.labelled for look in first + second):
        check.fail(
            "The images are right, but an item is a pair (image, label); it should be the image alone.",
            hint="Return `self.transform(image)` only. A batch is then one tensor instead of a list.",
            points=check.points - 1,
        )


def test_transform_applied(check: Check) -> None:
    """The transform is given the PIL image, and its result is what the item is; random numbers are left alone."""
    tree = faces.make_tree(check.rng, people=3, images=6)
    table = check.rng.permutation(256).astype(np.float32)
    seen = observe(
        check,
        "transform",
        data={"faces": tree.files},
        values={"path": FACES, "order": list(range(tree.count))},
        arrays={"table": table},
    )
    given = _strings(seen.values.get("given"))
    found = looks(seen.values.get("items"))
    if len(found) != tree.count:
        check.fail("The items did not come back as they were read.", hint="Does the file replace built-ins?")
    require_items(found)
    found = [look for look in found if look.kind != "IndexError"]
    if not given:
        check.fail(
            "The transform that was passed to `LFWDataset(path, transform)` was never called.",
            hint="Keep it in `__init__` (`self.transform = transform`), return `self.transform(image)`.",
        )
    odd = [kind for kind in given if kind != "a PIL image in mode RGB"]
    if odd:
        check.fail(
            f"The transform was given {odd[0]}; it should be given the PIL image, in RGB.",
            hint="Convert nothing yourself: `ToTensor` is part of the transform that is passed in, and "
            "augmentations expect a PIL image.",
        )
    expected = {faces.fingerprint(table[pixels]) for pixels in tree.pixels.values()}
    if known(found, expected) != len(found):
        check.fail(
            f"The transform was called, but {len(found) - known(found, expected)} of {len(found)} items are "
            "not what it returned.",
            hint="Return the transform's result as it is, `return self.transform(image)`: nothing is done to the picture before, "
            "or to the tensor behind it.",
        )
    if seen.values.get("resets") is True:
        check.fail(
            f"Each of {tree.count} items set torch's random numbers back: after it they were the same, whatever torch was seeded "
            "with before.",
            hint="Leave torch.manual_seed out of `__getitem__`: it makes random transforms do the same to every image, and the "
            "shuffling and the dropout of whoever reads the data set begin anew with each. Seed once, in main.",
            points=check.points / 2,
        )


def test_lazy(check: Check) -> None:
    """Images are read when an item is asked for, one file per item, and no file stays open."""
    names = faces.make_names(check.rng, LAZY_PEOPLE, LAZY_IMAGES)
    blobs = dict(zip(("before", "after", "later"), faces.plain_images(check.rng, 3), strict=True))
    seen = observe(
        check,
        "lazy",
        values={"names": names, "rounds": LAZY_ITEMS // LAZY_IMAGES},
        arrays={name: np.frombuffer(blob, np.uint8) for name, blob in blobs.items()},
    )
    place = seen.values.get("out_of_handles")
    if place is not None:
        read = number(seen.values.get("items_read")) or 0
        when = "in `__init__`" if place == "__init__" else f"after {read:.0f} items"
        check.fail(
            f"The process had no file handle left {when}: every image that was opened stays open.",
            hint="LFW has 13,233 images and a process may open about 1,000 files. Keep paths, not images; "
            "`with Image.open(path) as image:` closes the file again.",
        )
    opened = number(seen.values.get("opened_in_init"))
    if opened != 0:
        check.fail(
            f"`__init__` opened {opened or 0:.0f} image files of {LAZY_IMAGES}; it should open none.",
            hint="Collect paths in `__init__` and call Image.open in `__getitem__`: the real data set does "
            "not fit into memory.",
        )
    colours, opens, listings = (seen.arrays.get(name) for name in ("colours", "opens", "listings"))
    readable = int(number(seen.values.get("readable")) or 0)
    items = readable * (1 + LAZY_ITEMS // LAZY_IMAGES)
    if readable == 0:
        require_items([])
    if 2 * readable < LAZY_IMAGES:
        check.fail(f"Of {LAZY_IMAGES} images {readable} could be read.", hint="Mend items_are_images first.")
    integer = np.dtype(np.int64)
    came = [(None if seen is None else (seen.dtype, seen.shape)) for seen in (colours, opens, listings)]
    wanted = [(integer, (items, 3)), (integer, (items,)), (integer, (items,))]
    if colours is None or opens is None or listings is None or came != wanted:
        check.fail("The items did not come back as they were read.", hint="Does the file replace built-ins?")
    shown = {name: faces.read(blob)[8, 8].astype(int) for name, blob in blobs.items()}
    once, later = colours[:readable].astype(int), colours[readable:].astype(int)
    if _all_near(once, shown["before"]):
        check.fail(
            "Files were replaced after `LFWDataset(...)`, and the items still showed the old images: the "
            "pixels were read in `__init__`.",
            hint="Keep only the paths in `__init__`; read the file in `__getitem__`.",
        )
    if not any(_all_near(item, shown["after"]) for item in once):
        no_image(check)
    if not _all_near(once, shown["after"]):
        check.fail(
            f"{readable} images of one colour were read, and not every item showed it.",
            hint="Mend items_are_images first.",
        )
    if not _all_near(later, shown["later"]):
        check.fail(
            "Files were replaced between two passes, and items still showed the old images: they are kept "
            "in memory once they were read.",
            hint="Do not store images in the data set; after one epoch it would hold all of LFW, in every "
            "worker. An lru_cache stores them as well, the last ones of each worker.",
        )
    handles = _integers(seen.values.get("handles"))
    if not handles or max(handles) - handles[0] > 16:
        check.fail(
            f"After {items} items more files were open than at the start.",
            hint="`with Image.open(path) as image:` closes the file again.",
        )
    if opens.max() > 1:
        check.fail(
            f"One item opened {opens.max()} image files; one is enough.",
            hint="Open the file of `index` alone, once.",
            points=check.points / 2,
        )
    # Who lists the folder of one person knows already whose image it is.
    if listings.min() >= LAZY_PEOPLE // 2:
        check.fail(
            f"Each of {items} items was looked for anew: {listings.min()} folders or more were listed for it.",
            hint="List the folders once, in `__init__`, and keep the paths: LFW has 5,749 of them, and an index would be "
            "another image's as soon as a file is added.",
            points=check.points / 2,
        )


def test_workers(check: Check) -> None:
    """Worker processes, forked or spawned, give the same items as no workers."""
    tree = faces.make_tree(check.rng, people=3, images=8)
    data = {"faces": tree.files}
    seen = observe(check, "workers", data=data, values={"path": FACES, "count": tree.count})
    alone, forked = looks(seen.values.get("alone")), looks(seen.values.get("forked"))
    require_items(alone)
    alone = [look for look in alone if look.kind != "IndexError"]
    if not any(known(alone, prints_of(tree, made)) for made in EVERY_WAY):
        no_image(check)
    if not _same(alone, forked):
        check.fail(
            f"With num_workers=2 (fork) {_in_common(alone, forked)} of {len(alone)} items were the same as "
            "with num_workers=0.",
            hint="An item may depend on nothing but its index: no counter, no open file, no random state "
            "that workers share.",
        )
    spawned = looks(seen.values.get("spawned"))
    if problem := problem_text(seen.values.get("problem")):
        check.fail(
            f"num_workers=2 works with fork, but not where workers are spawned (Windows, macOS): {problem}.",
            hint="A spawned worker imports the file anew and gets a pickled copy of `self`, nothing else. Keep "
            "no lambda, open file or local function in `self`, and nothing in global variables.",
            points=check.points / 2,
        )
    if not _same(alone, spawned):
        check.fail(
            "num_workers=2 works with fork, but spawned workers (Windows, macOS) give other items.",
            hint="What an item depends on must be kept in `self`, not in global variables.",
            points=check.points / 2,
        )


def test_script(check: Check) -> None:
    """The script shows a batch, times five passes with the workers asked for, minds a missing folder, answers --help."""
    shares: dict[Part, float] = {
        visualize_complaint: 0.35,
        timing_complaint: 0.35,
        empty_complaint: 0.2,
        help_complaint: 0.1,
    }
    complaints: dict[Part, Complaint | None] = {}
    for part in shares:
        if part is empty_complaint and timing_complaint in complaints:
            # A script that never times anything does not time nothing either.
            complaints[part] = None
        elif part is help_complaint and len(complaints) == len(shares) - 1:
            # Help alone is worth nothing.
            complaints[part] = None
        elif complaint := part(check):
            complaints[part] = complaint
    if complaints:
        said = [complaint for complaint in complaints.values() if complaint is not None]
        # What was not looked at is lost as well.
        lost = sum(
            shares[part] * (1 if complaint is None else complaint.share)
            for part, complaint in complaints.items()
        )
        check.fail(
            told_once(said),
            hint="\n".join(dict.fromkeys(complaint.hint for complaint in said)),
            points=round(check.points * (1 - lost), 2),
        )


def test_robust(check: Check) -> None:
    """Folders as they are in real life: stray files, odd images, a pathlib path, an index past the end."""
    asked = trials(check.rng)
    seen = observe(
        check,
        "robust",
        data={name: trial.files for name, trial in asked.items() if name != "clutter"},
        files={f"clutter/{name}": data for name, data in asked["clutter"].files.items()},
        values={
            "empty_folders": ["clutter/Nobody_Here"],
            "trials": {name: [trial.path, len(trial.pixels)] for name, trial in asked.items()},
        },
    )
    answers = seen.values.get("trials")
    found = [look for answer in _answers(answers) for look in looks(answer.get("items"))]
    ways = ({name: replace(trial, made=made) for name, trial in asked.items()} for made in EVERY_WAY)
    asked = next((way for way in ways if any(known(found, trial.prints) for trial in way.values())), asked)
    complaints = {}
    for name, trial in asked.items():
        answer = answers.get(name) if isinstance(answers, dict) else None
        if complaint := trial.complaint(answer if isinstance(answer, dict) else {}):
            complaints[name] = complaint
    if len(complaints) == len(asked):
        if found:
            require_items(found)
            if not any(known(found, trial.prints) for trial in asked.values()):
                no_image(check)
        first = next(iter(complaints))
        check.fail(
            f"None of {len(asked)} folders was read as it should be. {asked[first].title}: {complaints[first]}",
            hint="Mend items_are_images first; of what is left then, the next run tells.",
        )
    if complaints:
        lost = sum(asked[name].share for name in complaints)
        check.fail(
            "\n".join(f"{asked[name].title}: {complaint}" for name, complaint in complaints.items()),
            hint="\n".join(dict.fromkeys(asked[name].hint for name in complaints)),
            points=round(check.points * (1 - lost), 2),
        )


def _strings(value: Json) -> list[str]:
    return [item for item in elements(value) if isinstance(item, str)]


def _integers(value: Json) -> list[int]:
    return [item for item in elements(value) if type(item) is int]


def _answers(answers: Json) -> list[Mapping[str, Json]]:
    values = answers.values() if isinstance(answers, dict) else ()
    return [answer for answer in values if isinstance(answer, dict)]


def _all_near(colours: np.ndarray, colour: np.ndarray) -> bool:
    return bool((np.abs(colours - colour) <= 2).all())


def _same(alone: list[Look], others: list[Look]) -> bool:
    return _in_common(alone, others) == len(alone) == len(others)


def _in_common(alone: list[Look], others: list[Look]) -> int:
    both = Counter(look.digest for look in alone) & Counter(look.digest for look in others)
    return sum(both.values())
