"""A PostgreSQL server of one's own, in a folder of its own and on a socket in it: no port, nothing of the system's.

Sources: the manual of PostgreSQL 15, `initdb`, `postgres` and chapter 19.
"""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("initdb", "postgres")
# Nothing here has to survive a power cut. The folder of the socket lets nobody else in. `log` says that the server is
# ready and leaves out what clients do wrong, which nobody reads: it would fill the pipe.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "max_connections": "40",
    "log_min_messages": "log",
    "log_checkpoints": "off",
}


@dataclass(frozen=True)
class Server:
    """A server that runs. `folder` holds its socket."""

    folder: Path
    user: str

    def url(self, database: str = "postgres", schema: str = "public") -> str:
        """A database URL as a person would write it."""
        options = f"host={self.folder}&options=-csearch_path%3D{schema}"
        return f"postgresql://{self.user}@/{database}?{options}"


def missing_programs() -> Sequence[str]:
    """What has to be installed first."""
    return [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]


@contextmanager
def server() -> Iterator[Server]:
    """A server that ends with the block, and its folder with it."""
    # Not below pytest's folder: a socket's path has 107 bytes at most, and root's folders let nobody else in.
    with tempfile.TemporaryDirectory(prefix="lockstep-pg-", dir="/tmp") as name:
        folder = Path(name)
        # PostgreSQL refuses to run as root; Debian's package brings a user for it.
        user = "postgres" if os.geteuid() == 0 else getpass.getuser()
        own = {"user": user} if os.geteuid() == 0 else {}
        if own:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        environment = {"PATH": _path(), "LC_ALL": "C.UTF-8"}
        data = folder / "data"
        command = ["initdb", "--pgdata", str(data), "--auth", "trust", "--username", user, "--no-sync"]
        subprocess.run(
            [*command, "--encoding", "UTF8", "--locale", "C.UTF-8"],
            env=environment,
            cwd=folder,
            capture_output=True,
            timeout=300,
            check=True,
            **own,
        )
        settings = {**SETTINGS, "unix_socket_directories": str(folder)}
        flags = [flag for key, value in settings.items() for flag in ("-c", f"{key}={value}")]
        process = subprocess.Popen(
            ["postgres", "-D", str(data), *flags],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **own,
        )
        try:
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                if "ready to accept connections" in line:
                    break
            else:
                raise RuntimeError("".join(said))
            yield Server(folder, user)
        finally:
            process.send_signal(signal.SIGINT)  # whoever is still connected
            process.wait(60)


def _path() -> str:
    # Debian keeps the programs of every version in a folder of its own.
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, versions)])
