"""A script over one of Azure's Python SDKs, none of which is there."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from lockstep.sandbox.probing import Inputs, Observation, Student
from lockstep.wire import Json

from .bench import MAX_OUTPUT, MAX_RECORDS, MAX_TASKS, MAX_TEXT

ENDED = {"get_status", "status", "provisioning_state"}


class AzureThing:
    """Whatever a script takes from the SDK, or gets out of it: everything can be asked of it, nothing happens.

    `of` is the last name it was taken by; a call of it is written down and gives another such thing. What is set of
    that, or of its parts, counts as if the call had been given it: `job.distribution = ...`.
    """

    def __init__(
        self,
        of: str,
        calls: list[Json],
        call: dict[str, Json] | None = None,
        around: dict[str, Json] | None = None,
    ) -> None:
        vars(self).update(_of=of, _calls=calls, _call=call, _around=around or call, _parts={})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._call is not None and name in ENDED and name != "get_status":
            return "Completed"
        return self._parts.setdefault(name, AzureThing(name, self._calls, around=self._around))

    def __setattr__(self, name: str, value: object) -> None:
        self._parts[name] = value
        if self._around is not None:
            cast(list[Json], self._around["set"]).append(name[:MAX_TEXT])
            cast(dict[str, Json], self._around["kwargs"])[name[:MAX_TEXT]] = _told(value)

    def __str__(self) -> str:
        """A name, as in f"{environment.name}:{environment.version}"."""
        return str(self._of)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Write the call down; what comes of it is another such thing."""
        if self._of in ENDED:
            return "Completed"
        call: dict[str, Json] = {"of": self._of, "set": [], **_said(args, kwargs)}
        if self._of == "set_resources" and self._around is not None:
            cast(dict[str, Json], self._around["kwargs"]).update(cast(dict[str, Json], call["kwargs"]))
        if len(self._calls) < MAX_RECORDS:
            self._calls.append(call)
        return AzureThing(self._of, self._calls, call)

    def __getitem__(self, key: object) -> Any:
        return AzureThing(str(key)[:MAX_TEXT], self._calls)

    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _made_by(self) -> Json:
        """As an argument of something else: the call that made it."""
        return self._call if self._call is not None else {"of": self._of}


def _said(args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Json]:
    return {
        "args": [_told(value) for value in args[:MAX_TASKS]],
        "kwargs": {str(name)[:MAX_TEXT]: _told(value) for name, value in list(kwargs.items())[:MAX_TASKS]},
    }


def _told(value: object, depth: int = 0) -> Json:
    if type(value) is AzureThing:
        call = cast(dict[str, Json], value._made_by())
        return {name: call[name] for name in ("of", "args", "kwargs") if name in call} if depth < 4 else None
    if value is None or type(value) in (bool, str) or (type(value) is int and abs(value) < 1 << 53):
        return value[:MAX_OUTPUT] if type(value) is str else cast(Json, value)
    if type(value) in (list, tuple) and depth < 4:
        return [_told(item, depth + 1) for item in cast(Sequence[object], value)[:MAX_TASKS]]
    if type(value) is dict and depth < 4:
        items = list(cast(dict[object, object], value).items())[:MAX_TASKS]
        return {str(name)[:MAX_TEXT]: _told(item, depth + 1) for name, item in items if type(name) is str}
    return {"of": "something else"}


class AzureModules:
    """Finds every module below `azureml` and `azure`, made of AzureThings and of exceptions that nobody raises."""

    def __init__(self, calls: list[Json]) -> None:
        self._calls = calls

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """As a finder of the import system."""
        root = name.partition(".")[0]
        return (
            importlib.util.spec_from_loader(name, cast(Any, self)) if root in ("azureml", "azure") else None
        )

    def create_module(self, spec: Any) -> types.ModuleType:
        """As a loader of the import system."""
        module = types.ModuleType(spec.name)
        vars(module).update(__path__=[], __getattr__=self._member)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""

    def _member(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith(("Exception", "Error")):
            return type(name, (Exception,), {})
        return AzureThing(name, self._calls)


def azure_script(student: Student, inputs: Inputs) -> Observation:
    """Run a script that hands a job to Azure; what it called of the SDK, and with what."""
    calls: list[Json] = []
    sys.meta_path.insert(0, cast(Any, AzureModules(calls)))
    status = student.run_script(cast(str, inputs.values["script"]))
    return Observation({"status": status, "calls": [*calls]})
