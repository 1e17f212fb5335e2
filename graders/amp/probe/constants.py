"""The constants of a notebook that the judge sets, by names that students give them."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lockstep.sandbox.cells import read_cells
from lockstep.wire import Json

MODEL_WORDS = (
    "model", "modelname", "network", "modell", "modellname", "netz", "netzwerk", "modelo", "red", "modele", "reseau",
)  # fmt: skip
# Of batches or epochs: how often something happens, when it begins or ends.
_OTHER_NUMBERS = re.compile("every|freq|interval|patience|warm|start|first|last|resume|save|decay|batches")
# What holds several constants.
HOLDERS = frozenset(
    "dict Namespace SimpleNamespace EasyDict edict AttrDict Munch Box DotMap ConfigDict".split()
)
# What a constant is made of, where it is more than a literal.
_MAKERS = (
    "Path PurePath str int float bool dict Namespace SimpleNamespace join expanduser resolve get getenv is_available"
).split()


def constants(source: str, options: dict[str, Json]) -> dict[str, Any]:
    """The judge's values for the constants that a notebook's `parameters` cell defines, by their names there.

    What is made in some other way is one of them where the cell has no other for that option.
    """
    assigned = list(assigned_in(source, options))
    is_set = {option for _, option, _, is_constant in assigned if is_constant}
    found: dict[str, Any] = {}
    for name, option, text, is_constant in assigned:
        if is_constant or option not in is_set:
            chosen = options[option]
            found[name] = Path(chosen) if "Path(" in text and isinstance(chosen, str) else chosen
    return found


def assigned_in(source: str, options: dict[str, Json]) -> Iterator[tuple[str, str, str, bool]]:
    """What the `parameters` cell sets and may be one of the options.

    Each with its name, the option, the text of its statement, and whether it is made like a constant.
    """
    lines = source.split("\n")
    for cell in read_cells(source) or ():
        if not cell.is_parameters:
            continue
        for statement in ast.parse("\n".join(cell.of(lines))).body:
            if isinstance(statement, ast.AnnAssign):
                targets: list[ast.expr] = [statement.target]
            elif isinstance(statement, ast.Assign):
                targets = statement.targets
            else:
                continue
            for target in targets:
                for name, value in _pairs(target, statement.value):
                    option = option_of(name)
                    if option in options and may_be(value, option, options[option]):
                        yield name, option, ast.unparse(statement), made_like_one(value)


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        alike = len(values) == len(target.elts)
        for part, of_it in zip(target.elts, values if alike else [None] * len(target.elts), strict=True):
            yield from _pairs(part, of_it)


def made_like_one(value: ast.expr | None) -> bool:
    """Whether a value is made like a constant."""
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)] if value else []
    return all(name_of(call) in _MAKERS for call in calls)


def name_of(function: ast.expr) -> str:
    """What a function that is called is called, wherever it comes from."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def may_be(value: ast.expr | None, option: str, chosen: Json) -> bool:
    """Whether what the judge chose can stand in the place of a value: LOG_EVERY = 10 is no folder for logs."""
    if isinstance(value, ast.Call) and name_of(value.func) in HOLDERS:
        return False
    try:
        own: object = None if value is None else ast.literal_eval(value)
    except ValueError:
        return True
    if own is None:
        return True
    if isinstance(chosen, bool):
        return isinstance(own, bool | str) or own in (0, 1)
    if isinstance(chosen, int):
        return isinstance(own, int) and not isinstance(own, bool)
    # DOWNLOAD_DATA = False is no folder either; USE_WANDB = True may be a mode.
    return isinstance(own, str) or (isinstance(own, bool) and option != "training_data")


def option_of(name: str) -> str:
    """The option that a constant of this name stands for, by the command line's name; "" for none.

    Names may be German, Spanish or French: a clear name is clear in its language.
    """
    word = re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", name.lower()))
    if re.search("accum|akkum|acum", word):
        return "accumulation"
    if re.search("batch|epoch", word) and _OTHER_NUMBERS.search(word):
        return ""
    if re.search("batch|stapel|(?<![ip])lote", word):
        return "find_batch_size" if re.search("find|search|such|busca|cherche", word) else "batch_size"
    if re.search("epo(ch|ca|que)", word):
        return "epochs"
    if "wandb" in word:
        return "wandb" if word in ("wandb", "wandbmode", "wandbmodus", "usewandb") else ""
    if re.search("report|bericht|informe|rapport", word):
        return "report"
    if re.search("(?<!se)arch(?!iv)", word) or word in MODEL_WORDS:
        return "arch"
    if word in (
        "amp",
        "useamp",
        "withamp",
        "mixedprecision",
        "gemischt",
        "gemischtegenauigkeit",
        "precisionmixta",
    ):
        return "amp"
    if (
        re.search("log(?!it|prob|soft|sum|ger|ging|level|every|freq|interval|step)", word)
        or re.match("protokoll|registro|journal", word)
        or word in ("runs", "runsdir", "tensorboarddir", "tbdir")
    ):
        return "logdir"
    return (
        "training_data"
        if re.search("data|daten|datos|donnees", word) or word in ("root", "cinic", "cinic10")
        else ""
    )
