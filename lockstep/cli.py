"""The `lockstep` command.

Exit status, for every command: 0 all is well, 1 something did not pass, 2 no verdict could be given.

Nothing heavy is imported before it is needed: `lockstep --help` answers at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep import arguments, output
from lockstep.classroom import commands
from lockstep.stopping import like_ctrl_c
from lockstep.text import safe_line

if TYPE_CHECKING:
    from lockstep.result import Result

ALL_PASSED, SOME_FAILED, COULD_NOT_GRADE = 0, 1, 2
INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C ended."""
UNREAD = 141
"""What it reports for one whose output nobody reads any more."""

NO_SANDBOX = (
    "Running without a sandbox: the submission can do on this machine whatever you can. "
    "Check only code that you trust, such as your own."
)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line `given` (default: this process's own) and return the exit status."""
    output.open_missing()
    try:
        with like_ctrl_c():
            try:
                return _answered(given)
            finally:  # after `--help` as well, which ends in a SystemExit
                output.flush()
    except output.Unread:
        return UNREAD
    except output.Unwritable as error:
        output.complain(str(error))
        return COULD_NOT_GRADE
    except KeyboardInterrupt:
        output.complain("stopped before there was a result")
        return INTERRUPTED


def _answered(given: Sequence[str] | None) -> int:
    parser = _parser()
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return ALL_PASSED
    status: int = options.command(options)
    return status


def check(options: argparse.Namespace) -> int:
    """`lockstep check PATH`: a student's own check, with a public seed and hints."""
    from lockstep.grading import CouldNotGrade

    try:
        return _checked(options)
    except CouldNotGrade as refusal:
        return _refused(refusal)


def verify_report(options: argparse.Namespace) -> int:
    """`lockstep verify-report FILE...`: whether the numbers of performance reports can be true."""
    from lockstep.reports import command

    wanted = command.Wanted(
        files=tuple(options.files),
        nonce=options.nonce,
        code_sha256=frozenset(options.code_sha256) or None,
        devices=options.devices,
        reference=options.reference,
        pictures=options.pictures,
    )
    try:
        return command.run(wanted, as_json=options.json)
    except command.CouldNotVerify as refusal:
        return _refused(refusal)


def doctor(options: argparse.Namespace) -> int:
    """`lockstep doctor`: what this machine can promise, and what mends the rest."""
    from lockstep.doctor.command import run_doctor

    return run_doctor(quick=options.quick, as_json=options.json)


def _refused(refusal: Exception) -> int:
    output.complain(safe_line(str(refusal), 1000))
    return COULD_NOT_GRADE


def _checked(options: argparse.Namespace) -> int:
    from lockstep import grading, terminal

    json_file: Path | None = options.json
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise grading.CouldNotGrade(f"there is no folder {json_file.absolute().parent} to write --json into")
    wanted = grading.Options(
        submission=options.path,
        exercises=tuple(options.exercise),
        checks=tuple(options.check),
        seed=options.seed,
        sandbox=options.sandbox,
        device=options.device,
        self_check=True,
        world_sizes=options.world_sizes,
        graders=options.graders or grading.default_graders(),
    )
    out, err = terminal.console_for(sys.stdout), terminal.console_for(sys.stderr)
    if options.sandbox == "none":
        err.print(terminal.notes([NO_SANDBOX]))
    with terminal.ProgressLine(err) as progress:
        result = grading.grade(wanted, progress)
    if progress.submission is not None and progress.submission.notes:
        out.print(terminal.notes(progress.submission.notes))
        out.print()
    out.print(terminal.report(result, progress.titles, wide=out.width >= terminal.WIDE))
    if json_file is not None:
        from lockstep.jsonfile import write_json

        try:
            write_json(json_file, result.to_json())
        except OSError as error:
            raise grading.CouldNotGrade(f"cannot write {json_file}: {error.strerror}") from error
    return exit_status(result)


def exit_status(result: Result) -> int:
    """0 when every check passed, 2 when lockstep itself failed at one of them, else 1."""
    from lockstep.verdict import Verdict

    verdicts = {check.verdict for exercise in result.exercises for check in exercise.checks}
    if not verdicts or Verdict.FAULT in verdicts:
        return COULD_NOT_GRADE
    return ALL_PASSED if verdicts == {Verdict.PASSED} else SOME_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lockstep",
        description="Grades PyTorch distributed-training labs.",
        epilog="Exit status: 0 all checks passed, 1 some did not, 2 no verdict could be given.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and stop")
    parser.set_defaults(command=None)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")

    about = "check your own work as it will be graded, and say what to try"
    command = subparsers.add_parser(
        "check",
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog="Exit status: 0 all checks passed, 1 some did not, 2 no verdict could be given.",
    )
    command.set_defaults(command=check)
    command.add_argument(
        "path", type=arguments.path, metavar="PATH", help="folder, .zip or .tar.gz of the submission"
    )
    arguments.add_exercise(command, "check")
    command.add_argument(
        "--check",
        action="extend",
        type=arguments.names,
        default=[],
        metavar="NAME",
        help="make this check only; may be given more than once, or with commas",
    )
    command.add_argument(
        "--json", type=arguments.path, metavar="FILE", help="write the result as JSON as well"
    )
    command.add_argument(
        "--seed",
        type=arguments.seed,
        metavar="N",
        help="draw other data; the same number draws the same data",
    )
    arguments.add_how_to_grade(command)
    _add_verify_report(subparsers)
    commands.add_to(subparsers)
    _add_doctor(subparsers)
    return parser


def _add_verify_report(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "say whether the numbers of performance reports (perf-report/1) can be true"
    command = subparsers.add_parser(
        "verify-report",
        help=about,
        description=f"{about[0].upper()}{about[1:]}. Several reports are compared with each other as well.",
        epilog="Exit status: 0 nothing costs points, 1 something does, 2 a file could not be read.",
    )
    command.set_defaults(command=verify_report)
    command.add_argument(
        "files",
        nargs="+",
        type=arguments.path,
        metavar="FILE",
        help="a report; logs are looked for beside it",
    )
    command.add_argument("--json", action="store_true", help="print one JSON array instead of text")
    command.add_argument("--nonce", metavar="N", help="the text that was issued for this attempt")
    command.add_argument(
        "--code-sha256",
        action="append",
        type=_sha256,
        default=[],
        metavar="H",
        help="SHA-256 of a script that was handed in; may be given more than once",
    )
    command.add_argument(
        "--devices", type=arguments.path, metavar="FILE", help="a TOML table of further GPUs and links"
    )
    command.add_argument(
        "--reference",
        type=arguments.path,
        metavar="FILE",
        help="the reference's own report, from the same class of machine",
    )
    command.add_argument(
        "--pictures", type=arguments.path, metavar="DIR", help="draw a plot of every report into this folder"
    )


def _add_doctor(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "doctor",
        help="say whether grading works on this machine, and what mends it",
        description="Says what this machine can promise, what follows from it for grading, and what mends it.",
        epilog="Exit status: 0 grading works, 1 it would be refused.",
    )
    command.set_defaults(command=doctor)
    command.add_argument(
        "--quick", action="store_true", help="do without the run in a real sandbox, which takes seconds"
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


class _Version(argparse.Action):
    """Looks the version up only when asked for it: the metadata of a full environment is slow to read."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print the version and stop."""
        from importlib.metadata import version

        output.say(f"lockstep {version('lockstep')}")
        parser.exit()


def _sha256(text: str) -> str:
    if len(text) != 64 or set(text.lower()) - set("0123456789abcdef"):
        raise argparse.ArgumentTypeError(f"64 hexadecimal digits, as sha256sum prints them, not {text!r}")
    return text.lower()


if __name__ == "__main__":
    sys.exit(main())
