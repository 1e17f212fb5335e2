"""What a person sees: a line for each thing, what follows where something is less than it could be, and one command."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lockstep.doctor.finding import Finding, Level
from lockstep.doctor.machine import Machine
from lockstep.terminal import Mark, Sign
from lockstep.text import safe_line

MARKS = {
    Level.OK: Mark("✓", "+", "green"),
    Level.WEAKER: Mark("!", "!", "yellow"),
    Level.REFUSED: Mark("✗", "x", "red"),
}
OWN_CODE = "Your own code can do without protection: lockstep check PATH --sandbox none"
WIDE = 110
"""Columns from which a line that is ok has room for what follows as well."""
TITLE, SEEN = 15, 46
"""Columns of the first two words of a line; what follows has the rest where a terminal is wide."""


def heading(machine: Machine, *, wide: bool) -> RenderableType:
    """Which machine this is."""
    host = machine.host
    line = Text(" ".join(["lockstep", machine.software.lockstep]).strip() + " ", style="bold")
    about = f"on {host.system}{', in a container' if host.container else ''}"
    return Group(line.append(safe_line(about + f", kernel {host.kernel}" * wide), style="not bold"), Text())


def line(finding: Finding, *, wide: bool) -> RenderableType:
    """A finding, without its command."""
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(width=1)
    grid.add_column(width=TITLE)
    mark, seen = MARKS[finding.level], Text(safe_line(finding.seen, 400))
    cells: list[RenderableType] = [
        Sign(mark),
        Text(finding.title, style="" if finding.level is Level.OK else "bold"),
    ]
    follows = Text(finding.follows)
    follows.highlight_regex(r"`[^`\n]+`", "bold")
    if finding.level is not Level.OK:
        seen.stylize(mark.style)
        grid.add_column()
        grid.add_row(*cells, seen)
        grid.add_row("", "", follows)
    elif wide:
        follows.stylize("bright_black")
        grid.add_column(width=SEEN)
        grid.add_column()
        grid.add_row(*cells, seen, follows)
    else:
        grid.add_column()
        grid.add_row(*cells, seen)
    return grid


def command(finding: Finding) -> Text:
    """The command that mends it, to be printed without wrapping: it is there to be copied."""
    return Text(f"{' ' * (TITLE + 5)}$ {finding.mend}", style="cyan")


def summary(findings: Sequence[Finding], *, quick: bool) -> RenderableType:
    """The last lines: whether grading works here."""
    levels = [finding.level for finding in findings]
    if Level.REFUSED in levels:
        line = Text("Nothing is graded on this machine before what is marked is mended.", style="bold red")
        refused = {finding.id for finding in findings if finding.level is Level.REFUSED}
        only_unprotected = refused - {"box"} and "versions" not in refused
        return Group(line, Text(OWN_CODE)) if only_unprotected else line
    works = "Grading should work on this machine" if quick else "Grading works on this machine"
    if weaker := levels.count(Level.WEAKER):
        things = "1 thing is" if weaker == 1 else f"{weaker} things are"
        return Text(f"{works}; {things} weaker than could be.", style="bold yellow")
    return Text(f"{works}, with all that lockstep promises.", style="bold green")
