"""What a probe may use: the student's code, the run's inputs, and strict conversion to plain values."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NoReturn, cast

import numpy as np
import torch

from lockstep.sandbox import cells, jupyter, lately, loading, missing, reading, whereabouts
from lockstep.sandbox.starvation import Limit
from lockstep.sandbox.watch import Watch
from lockstep.wire import Array, Json

MAX_ELEMENTS = 16 << 20
MAX_STRING = 4096
MAX_NAMES = 100
MAX_REPORT = 1 << 20
# How often it is asked whether the time of a command is up.
AGAIN_SECONDS = 0.1
# What Python says, to those who hear its audit events, where another process begins: what that does is not seen.
OTHER_PROCESS = frozenset(
    {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty"}
)


class _Ended(BaseException):
    """A script has said `os._exit(0)`."""


@contextlib.contextmanager
def _seen_to_end() -> Iterator[None]:
    """Let `os._exit(0)` in this thread raise _Ended: some end so for fear of a hang, and all is done by then.

    With any other status it is a fault that others, who may wait for this process, are to hear of at once.
    """
    ends = os._exit
    caller = os.getpid(), threading.get_ident()

    def end(status: int) -> NoReturn:
        if status == 0 and (os.getpid(), threading.get_ident()) == caller:
            raise _Ended
        ends(status)

    os._exit = end
    try:
        yield
    finally:
        os._exit = ends


@dataclass(frozen=True)
class Inputs:
    """What the judge sent to this rank."""

    values: dict[str, Json]
    arrays: dict[str, Array]
    rank: int = 0
    world_size: int = 1

    def tensor(self, name: str) -> torch.Tensor:
        """A fresh tensor with the named array's shape, dtype and values."""
        return torch.from_numpy(np.array(self.arrays[name], copy=True))

    def below(self, prefix: str) -> dict[str, Array]:
        """The arrays called `prefix/NAME`, by NAME."""
        return {
            name.removeprefix(f"{prefix}/"): array
            for name, array in self.arrays.items()
            if name.startswith(f"{prefix}/")
        }


@dataclass(frozen=True)
class Observation:
    """What a probe saw: JSON values and arrays (NumPy, or plain dense CPU tensors)."""

    values: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, Array | torch.Tensor] = field(default_factory=dict)


class StudentMistake(Exception):
    """Something the contract asks for is not there; the message is for the student."""


class LeftOut(StudentMistake):
    """It is there, but only among the lines that importing leaves out because they run the script, or fail."""


class NoCode(StudentMistake):
    """The file is empty, or holds comments and text alone."""


class OutOfReach(StudentMistake):
    """It is defined, but inside of something else, where importing the file does not find it."""


class Misspelt(StudentMistake):
    """Something is there that is spelled nearly alike."""


class Undefined(StudentMistake):
    """Nothing of the sort is there."""


@dataclass(frozen=True)
class CommandResult:
    """How a command ended: its exit status (negative: killed by that signal) and the tail of its output."""

    status: int
    output: str


class Student:
    """The student's folder, the one beside it that holds `data`, and what is being done right now (`phase`)."""

    def __init__(self, work: str, watch: Watch, answer: Callable[[Observation, bool], NoReturn]) -> None:
        self.work = work
        self.data = os.path.join(os.path.dirname(work), "data")
        self.watch = watch
        self.phase = ""
        self._answer = answer
        self._left_out: dict[str, loading.Loaded] = {}
        self._last_of_ours = lately.last_module()

    @contextlib.contextmanager
    def calling(self, phase: str) -> Iterator[None]:
        """Name what is called, for the messages of a crash or a hang; wraps every call of student code."""
        before, self.phase = self.phase, phase
        self.watch.note("phase", name=phase)
        yield
        # Kept on an exception, so that the report can say where it came from.
        self.phase = before

    def answer(self, observation: Observation, *, stays: bool = True) -> NoReturn:
        """End the run here with what was seen, from wherever in student code this is called.

        An exception would leave it to their `except` and `finally` what becomes of the run. A rank that does not stay
        until the others are through closes its connections to them, as a process that ends does.
        """
        self._answer(observation, stays)

    def load(self, name: str) -> ModuleType:
        """Import `NAME.py`, or only its definitions where importing would run the script, or fails for want of data."""
        path = os.path.join(self.work, f"{name}.py")
        if not os.path.exists(path):
            self.phase = f"importing {name}.py"
            raise StudentMistake(f"there is no {name}.py (nor {name}.ipynb) in the submission")
        with self.calling(f"importing {name}.py"):
            loaded = loading.load(name, path)
        self._left_out[name] = loaded
        kind = "unread_cell" if self.is_notebook(name) else "ipython_line"
        for unread in loaded.unread:
            self.watch.note(kind, file=f"{name}.py", line=unread.lineno, why=unread.msg)
        if loaded.skipped:
            self.watch.note(
                "definitions_only",
                file=f"{name}.py",
                lines=[one.line for one in loaded.skipped[:20]],
                names=sorted(set().union(*(one.names for one in loaded.skipped)))[:MAX_NAMES],
                raised="" if loaded.is_script else loaded.skipped[0].raised,
            )
        return loaded.module

    def get(self, module: ModuleType, name: str) -> Any:
        """A name the contract asks for. Raises StudentMistake when it is not there."""
        with self.calling(f"looking for {name} in {module.__name__}.py"):
            try:
                value = getattr(module, name)
            except AttributeError:
                file = f"{module.__name__}.py"
                loaded = self._left_out.get(module.__name__)
                binds = [one for one in loaded.skipped if name in one.names] if loaded is not None else []
                lacks = "ModuleNotFoundError: "
                if binds and binds[0].raised.startswith(lacks):
                    raise ModuleNotFoundError(binds[0].raised.removeprefix(lacks)) from None
                if loaded is not None and binds:
                    raise LeftOut(_left_out(file, name, binds[0], loaded.is_script)) from None
                if loaded is not None and loaded.unread and self.is_notebook(module.__name__):
                    # It may be what stands there.
                    raise loaded.unread[0] from None
                raise self._undefined(module.__name__, name) from None
            if type(value) is missing.Missing:
                missing.complain(value)
            return value

    def _undefined(self, module: str, name: str) -> StudentMistake:
        """Why a file of the student's does not define a name."""
        path = os.path.join(self.work, f"{module}.py")
        file = f"{module}.ipynb" if self.is_notebook(module) else f"{module}.py"
        try:
            tree, _ = reading.parse(reading.read_source(path), path)
        except Exception:  # it was changed when it was imported
            return Undefined(f"{file} does not define {name}")
        if whereabouts.is_without_code(tree):
            return NoCode(
                f"{file} {'holds comments and text alone' if os.path.getsize(path) else 'is empty'}"
            )
        if where := whereabouts.enclosing(tree, name):
            return OutOfReach(f"{file} defines {name} only {where}")
        if near := whereabouts.nearest(tree, name):
            return Misspelt(f"{file} does not define {name}, but {near}")
        own = whereabouts.defined(tree)
        it_has = f": of functions and classes it defines {', '.join(own)}" if own else ""
        return Undefined(f"{file} does not define {name}{it_has}")

    def run_script(self, name: str, arguments: list[str] | tuple[str, ...] = ()) -> int:
        """Run `python NAME arguments` in this warm process and return its exit status; exceptions propagate."""
        path = os.path.join(self.work, name)
        self._forget_imports()
        # A report names the file that measured, and the author of a notebook calls it so.
        self.write_notebooks()
        sys.argv = [name, *arguments]
        # A script finds its neighbours first, unlike an imported module.
        sys.path.insert(0, self.work)
        shown = " ".join(["python", name, *arguments])
        with self.calling(f"running `{shown}`"):
            if not os.path.exists(path):
                raise StudentMistake(f"there is no {name} in the submission")
            try:
                with _seen_to_end():
                    loading.run_as_main(path)
            except _Ended:
                return 0
            except SystemExit as stop:
                if stop.code is None or isinstance(stop.code, int):
                    return stop.code or 0
                print(stop.code, file=sys.stderr)
                return 1
        return 0

    def _forget_imports(self) -> None:
        """Let what was imported from the submission be imported anew, as by a Python that has just been started."""
        for name in lately.imported_since(self._last_of_ours):
            module = sys.modules.get(name)
            file = module.__dict__.get("__file__") if isinstance(module, ModuleType) else None
            if isinstance(file, str) and file.startswith(self.work + os.sep):
                sys.modules.pop(name, None)

    def is_notebook(self, name: str) -> bool:
        """Whether NAME was handed in as NAME.ipynb."""
        path = os.path.join(self.work, f"{name}.py")
        return os.path.exists(path) and cells.read_cells(reading.read_source(path)) is not None

    def run_notebook(
        self,
        name: str,
        parameters: Mapping[str, Json] | None = None,
        *,
        arguments: Sequence[str] = (),
        seconds_per_cell: float | None = None,
        output_limit: int | None = None,
    ) -> cells.NotebookRun:
        """Run the cells of NAME.ipynb from top to bottom, as "Restart and run all" does, up to the first that fails.

        `parameters` replace what a cell with the tag `parameters` defines; `arguments` are those of a command
        line, which cells can read where no kernel has its own. A cell that takes longer than `seconds_per_cell`
        or prints more than `output_limit` characters fails. What a cell raises is in the result, not raised here.
        Raises StudentMistake when there is no such notebook.
        """
        if not self.is_notebook(name):
            self.phase = f"running {name}.ipynb"
            raise StudentMistake(f"there is no {name}.ipynb in the submission")
        path = os.path.join(self.work, f"{name}.py")
        source = reading.read_source(path)
        sys.argv = [f"{name}.ipynb", *arguments]
        sys.path.insert(0, self.work)
        # Cells may look for their own file, having no __file__.
        _write_notebook(path, source)
        main = loading.new_main(None)
        jupyter.furnish(main.__dict__, source)
        return cells.run_cells(
            source,
            path,
            main,
            parameters or {},
            seconds_per_cell=seconds_per_cell,
            output_limit=output_limit,
            calling=lambda number: self.calling(f"running {name}.ipynb, cell {number}"),
        )

    def write_notebooks(self) -> None:
        """Put the notebooks that were handed in beside what was made from them: scripts may make a program of one."""
        for name in os.listdir(self.work):
            path = os.path.join(self.work, name)
            # What is no source, or no notebook's, is not ours to complain of here.
            with contextlib.suppress(reading.SourceError, OSError, ValueError):
                if name.endswith(".py"):
                    _write_notebook(path, reading.read_source(path))

    def run_command(
        self, command: list[str], environment: Mapping[str, str] | None = None, seconds: float | None = None
    ) -> CommandResult:
        """Run a real command in the student's folder; `python` and `torchrun` start warm.

        Raises subprocess.TimeoutExpired after `seconds`; what others do on this machine does not count.
        """
        self.write_notebooks()
        with (
            self.calling(f"running `{' '.join(command)}`"),
            subprocess.Popen(
                command,
                cwd=self.work,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            output = _output(process, None if seconds is None else Limit(seconds, os.getppid()))
        text = output[-65536:].decode("utf-8", "replace")
        print(text)
        return CommandResult(process.returncode, text)


def _left_out(file: str, name: str, skipped: loading.Skipped, is_script: bool) -> str:
    if is_script:
        return f"{file} defines {name} only among the lines that run the script, which importing leaves out"
    return f"{file} defines {name} only in line {skipped.line}, which is left out because it raised {skipped.raised}"


def _write_notebook(path: str, source: str) -> None:
    """NAME.ipynb beside the NAME.py that was made from it. Raises ValueError where it was made from no notebook."""
    notebook = cells.as_notebook(source)
    with contextlib.suppress(FileExistsError), open(f"{path[:-3]}.ipynb", "x", encoding="utf-8") as file:
        file.write(notebook)


def _output(process: subprocess.Popen[bytes], limit: Limit | None) -> bytes:
    """What a process writes until it ends, which it does at the latest when its time is up."""
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=None if limit is None else AGAIN_SECONDS)[0]
            if limit is not None and limit.is_reached():
                raise subprocess.TimeoutExpired(process.args, limit.seconds)
    except BaseException:
        process.kill()
        raise


def plain(value: object) -> Json:
    """A student's value as JSON, by exact type; anything else only as the name of its kind."""
    if value is None or type(value) in (bool, int):
        return cast(Json, value) if type(value) is not int or abs(value) < 1 << 63 else {"type": "a huge int"}
    if type(value) is float:
        return value if value - value == 0 else {"type": "NaN" if value != value else "infinity"}
    if type(value) is str:
        return value[:MAX_STRING].encode("utf-8", "replace").decode()
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        tensor = cast(torch.Tensor, value)
        if tensor.layout == torch.strided and tensor.numel() == 1 and tensor.device.type == "cpu":
            return plain(tensor.detach().item())
    if isinstance(value, np.generic) and type(value).__module__ == "numpy":
        return plain(value.item())
    return {"type": kind(value)}


def kind(value: object) -> str:
    """What a value is, in words, without calling anything of it."""
    if value is None:
        return "None"
    exact = type(value)
    names = {
        list: "a list", tuple: "a tuple", dict: "a dict", str: "a string", int: "an int", float: "a float",
        bool: "a bool", bytes: "bytes", set: "a set",
    }  # fmt: skip
    if exact in names:
        return names[exact]
    if exact in (torch.Tensor, torch.nn.Parameter):
        tensor = cast(torch.Tensor, value)
        shape = "x".join(str(size) for size in tensor.shape) or "scalar"
        return f"a {str(tensor.dtype).removeprefix('torch.')} tensor of shape {shape}"
    if issubclass(exact, torch.Tensor):
        return f"a tensor subclass ({_name(exact)})"
    if issubclass(exact, np.ndarray):
        return "a NumPy array"
    if _module(exact).startswith("PIL."):
        return "a PIL image"
    return f"an object of type {_name(exact)}"


def _name(exact: type) -> str:
    return cast(str, type.__dict__["__name__"].__get__(exact))[:60]


def _module(exact: type) -> str:
    module = type.__dict__["__module__"].__get__(exact)
    return module if type(module) is str else ""


def plain_tensor(value: object) -> Array | None:
    """A dense CPU tensor of bounded size as NumPy (bfloat16 as float32); None for anything else."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None
    tensor = cast(torch.Tensor, value).detach()
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        return None
    if tensor.numel() > MAX_ELEMENTS or tensor.is_complex():
        return None
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().contiguous().numpy().copy()


def text_of_file(path: str) -> str | None:
    """What is in a file that a student's code may have written; None where there is none, or no report is so long."""
    if not os.path.isfile(path) or os.path.getsize(path) >= MAX_REPORT:
        return None
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


def as_arrays(arrays: Mapping[str, Array | torch.Tensor]) -> dict[str, Array]:
    """A probe's arrays, ready to be sent; a value that is no plain array is left out, so it is missing."""
    ready: dict[str, Array] = {}
    for name, value in arrays.items():
        array = value if type(value) is np.ndarray else plain_tensor(value)
        if array is not None:
            ready[name] = array
    return ready
