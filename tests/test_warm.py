"""The stand-ins for `python` end as the processes that they stand for, whenever they are sent a signal."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from lockstep.sandbox import warm


@pytest.mark.parametrize("status", [0, 3])
def test_a_signal_after_the_end_changes_no_exit_status(tmp_path: Path, status: int) -> None:
    """As torchrun sends it to all processes when one of them has failed."""
    warm.write_stand_ins(str(tmp_path))
    with (
        warm.listen(str(tmp_path)) as listener,
        subprocess.Popen([tmp_path / "bin" / "python", "script.py"], stderr=subprocess.PIPE) as stand_in,
    ):
        end = listener.accept()[0]
        _, fds, _, _ = socket.recv_fds(end, 4096, warm.MAX_SENT_FDS)
        for fd in fds:
            os.close(fd)
        _await_answer_wanted(stand_in.pid)
        # It learns of all of this at once.
        stand_in.send_signal(signal.SIGSTOP)
        os.waitpid(stand_in.pid, os.WUNTRACED)
        end.send(str(status).encode())
        end.close()
        stand_in.send_signal(signal.SIGTERM)
        stand_in.send_signal(signal.SIGCONT)
        _, told = stand_in.communicate()
    assert (stand_in.returncode, told) == (status, b"")


def _await_answer_wanted(pid: int) -> None:
    """Return when a stand-in waits for its answer: from then on it handles signals."""
    handled = 1 << (signal.SIGUSR2 - 1)
    while True:
        state = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if int(state["SigCgt"], 16) & handled and state["State"].startswith("S"):
            return
