"""Asks a program of this machine something that takes a moment; that it is missing is an answer as well."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

SECONDS = 30


def ask(command: Sequence[str]) -> tuple[int, str]:
    """Exit status and last line of what a program said; -1 where it could not be started or did not end."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            cwd="/",
        )
    except FileNotFoundError:
        return -1, f"{command[0]} is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    lines = (done.stderr or done.stdout).strip().splitlines()
    return done.returncode, lines[-1] if lines else f"exit status {done.returncode}"
