"""lockstep started by somebody who is not root: no user for every box, no control groups, and still a sandbox."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from lockstep.sandbox import bubblewrap
from tests.sandboxed import ROOT

# A user that no box has.
UID = bubblewrap.FIRST_UID + bubblewrap.UIDS
DRIVER = '''
import json, os, sys, time
sys.path.insert(0, {root!r})
from lockstep.exercise import Server
from lockstep.sandbox import watching
from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import MIB, Limits
from tests.sandboxed import PROBE, SHARING, message, run

EACH = "import os\\ndef main(): return [int(name) for name in os.listdir('/proc') if name.isdigit()]"
FILL = "def main():\\n    kept = []\\n    while True: kept.append(bytes(1 << 24) + b'x')"
FORK = "import os, time\\ndef main():\\n    while True:\\n        if os.fork() == 0: time.sleep(60)"
# Its first thread ends, and with it what the kernel says of its memory in /proc/PID.
HEADLESS = """
import ctypes, os, threading
def fill():
    kept = []
    while True: kept.append(bytes(1 << 24) + b'x')
def main():
    pid = os.fork()
    if pid == 0:
        threading.Thread(target=fill).start()
        ctypes.CDLL(None).syscall({{"x86_64": 60, "aarch64": 93}}[os.uname().machine], 0)
    os.waitpid(pid, 0)
"""

# Reads its own events before anybody else does, and ends as a broken probe would.
SWALLOWS = """
import os
events = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and "pipe" in os.readlink("/proc/self/fd/" + fd))[1]
with open("/proc/self/fd/%d" % events, "rb", buffering=0) as pipe:
    pipe.read(1 << 16)
os._exit(70)
"""

class Slow(watching._Pipe):
    def read(self):
        if self.cap == watching.MAX_EVENTS and not self.data:
            time.sleep(0.01)  # as if others had the processors, until all of it has been read
            return True
        return super().read()

def swallowed(box):
    watching._Pipe, kept = Slow, watching._Pipe
    outcome = limited(box, SWALLOWS)
    watching._Pipe = kept
    assert not outcome.ranks[0].events
    return message(outcome)

def limited(box, source, **limits):
    return run(box, source, server=Server.EARLY, limits=Limits(60, **limits))

boxes = [Box({{"engine": PROBE}}, isolated=isolated, last=Server.EARLY) for isolated in (True, False)]
with boxes[0] as box, boxes[1] as plain:
    print(json.dumps(dict(
        user=os.getuid(),
        processes=limited(box, EACH).ranks[0].values["seen"],
        filled=limited(box, FILL, memory=300 * MIB).limit,
        swallowed=swallowed(box),
        headless=limited(box, HEADLESS, memory=300 * MIB).limit,
        forked=limited(box, FORK, processes=40).limit,
        shared=limited(box, SHARING, memory=300 * MIB).ranks[0].values["seen"],
        plain_shared=limited(plain, SHARING, memory=300 * MIB).ranks[0].values["seen"],
        after=limited(box, EACH).ranks[0].values["seen"],
    )))
'''

EACH_MOUNTED = """
for entry in /mnt/{number}/* /mnt/{number}/.[!.]*; do
    place={place}/${{entry##*/}}
    if [ -d "$entry" ]; then mkdir -p "$place"; else touch "$place"; fi
    mount --bind "$entry" "$place"
done
"""


def _closed(path: Path) -> Path | None:
    """The topmost folder on the way to a file, or that itself, which others may not enter."""
    return next((folder for folder in [*reversed(path.parents), path] if _is_closed(folder)), None)


def _is_closed(folder: Path) -> bool:
    """As the folders are that `mktemp -d` makes, and the home of root."""
    return not folder.stat().st_mode & 0o001


def _as_ordinary_user(words: list[str]) -> list[str]:
    """A command that runs another one without root's rights, and lets it find Python and this checkout."""
    if os.getuid() != 0:
        return words
    needed = [Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT]
    script = "mount -t tmpfs -o mode=0755 none /mnt\n"
    for number, folder in enumerate(needed):
        script += f"mkdir /mnt/{number}; mount --bind {shlex.quote(str(folder))} /mnt/{number}\n"
    for closed in {_closed(folder) for folder in needed} - {None}:
        script += f"mount -t tmpfs -o mode=0755 none {shlex.quote(str(closed))}\n"
    for number, folder in enumerate(needed):
        if _closed(folder) is not None:
            place = shlex.quote(str(folder))
            script += f"mkdir -p {place}\n"
            # Mounted elsewhere it would be as closed; what is in it is not.
            script += (
                EACH_MOUNTED.format(number=number, place=place)
                if _is_closed(folder)
                else f"mount --bind /mnt/{number} {place}\n"
            )
    script += 'cd /; exec "$@"'
    drop = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all"]
    return [*bubblewrap.ENTER, "sh", "-ec", script, "sh", *drop, *words]


def test_limits_and_walls_hold_for_an_ordinary_user_as_well() -> None:
    done = subprocess.run(
        _as_ordinary_user([sys.executable, "-B", "-c", DRIVER.format(root=str(ROOT))]),
        env={"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said == {
        "user": os.getuid() or UID,
        "processes": [1, 2],
        "filled": "memory",
        # What it was in the midst of, it has swallowed as well.
        "swallowed": "The process of your code ended by itself (exit status 70) without coming back, "
        "before any of your functions was called.",
        "headless": "memory",
        "forked": "processes",
        "shared": 120 << 20,
        "plain_shared": 120 << 20,
        "after": [1, 2],
    }
