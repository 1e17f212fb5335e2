"""The database behind a gradebook: a SQLite file or one on a server; how it is opened, and who may write when."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from sqlalchemy import URL, Connection, create_engine, event, insert, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from lockstep.classroom import tables

BUSY_SECONDS = 60
"""How long a write waits for another process's: a person's override never fails because a class is graded."""

FILE = "gradebook.db"
"""The gradebook in a folder of results."""

# What SQLite says, and what to do about it.
_WHAT_TO_TRY = {
    "database is locked": f"another program has kept it locked for {BUSY_SECONDS} seconds; try again when that is done",
    "unable to open database file": "does its folder exist, and is it yours?",
    "file is not a database": "name another file",
    "disk is full": "free some space and start again; what was written before is there",
    "readonly database": "is it yours, and its folder?",
    "disk I/O error": "is its disk full, or a network's? Free some space, or put it on a local disk",
    "locking protocol": "put it on a local disk",
    "Can't load plugin": "a URL begins with postgresql:// or sqlite:///",
}


class GradebookError(Exception):
    """The gradebook cannot be opened, read or written; the message is a sentence."""


class HeldError(GradebookError):
    """Another process holds the gradebook: it grades, or writes what people have decided."""


class Database:
    """An open database that has a gradebook's tables. `notes` are sentences for whoever opened it."""

    def __init__(self, place: str | Path, *, create: bool = True) -> None:
        """Open it, making the tables where there are none and `create` allows it. Raises GradebookError.

        `place` is a path, a folder of results, or a database URL.
        """
        url = _url(place)
        self.notes: tuple[str, ...] = ()
        self._file = _file(url)
        self.shown = str(self._file or url.render_as_string(hide_password=True))
        if self._file is not None and not create and not self._file.is_file():
            raise GradebookError(f"there is no gradebook {self._file}")
        try:
            self._engine = self._connected(url)
            self._reader = self._engine
            self._writer = self._engine.execution_options(writes=True)
            if self._engine.dialect.name == "postgresql":
                # Several queries of one reader shall see one state of the class.
                self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ")
            self._prepare(create)
        except ImportError as error:
            tip = "; `make setup` installs it" if url.get_backend_name() == "postgresql" else ""
            raise GradebookError(f"the gradebook {self.shown} cannot be opened: {error}{tip}") from error
        except SQLAlchemyError as error:
            raise GradebookError(f"the gradebook {self.shown} cannot be opened: {_reason(error)}") from error

    def close(self) -> None:
        """Let go of it."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the gradebook, whatever is written meanwhile."""
        try:
            with self._reader.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise GradebookError(f"the gradebook {self.shown} cannot be read: {_reason(error)}") from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is written when the block ends and not at all when it raises."""
        try:
            with self._writer.begin() as connection:
                yield connection
        except (SQLAlchemyError, ValueError) as error:  # the latter from drivers that write JSON themselves
            raise GradebookError(f"the gradebook {self.shown} cannot be written: {_reason(error)}") from error

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other processes from holding it as long as the block lasts; others may read and write.

        Tables are made that a gradebook of before lacks. The system ends the hold of a process that ends, whichever
        way. Raises HeldError when it is held.
        """
        with self._held():
            with self.write() as connection:
                tables.metadata.create_all(connection)
            yield

    @contextmanager
    def _held(self) -> Iterator[None]:
        if self._file is not None:
            with _locked(self._file):
                yield
        elif self._engine.dialect.name == "postgresql":
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.detach()  # closed with the block, and the lock with it, instead of kept for the next
                key = "hashtext('lockstep ' || current_schema())"
                if not connection.scalar(text(f"SELECT pg_try_advisory_lock({key})")):
                    raise HeldError(f"another process is grading into the gradebook {self.shown}")
                yield
        else:
            yield

    def _connected(self, url: URL) -> Any:
        to_json = partial(json.dumps, allow_nan=False)
        if url.get_backend_name() != "sqlite":
            arguments: dict[str, object] = {}
            if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
                arguments["connect_timeout"] = 20
            return create_engine(url, pool_pre_ping=True, connect_args=arguments, json_serializer=to_json)
        journal = "WAL"
        if self._file is not None:
            if self._file.is_file() and not _is_writable(self._file):
                url, journal = _read_only(self._file), ""
                self.notes += (f"the gradebook {self._file} cannot be written here; it is only read",)
            elif kind := _network_file_system(self._file):
                journal = "DELETE"
                self.notes += (
                    f"the gradebook {self._file} lies on a network file system ({kind}), where a process that reads "
                    "holds up one that writes; on a local disk it does not",
                )
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, json_serializer=to_json)
        event.listen(engine, "connect", lambda connection, _: _prepare_sqlite(connection, journal))
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _prepare(self, create: bool) -> None:
        with self._reader.connect() as connection:
            if self._has_tables(connection):
                return
        if not create:
            raise GradebookError(f"{self.shown} holds no gradebook")
        try:
            with self._writer.begin() as connection:
                if not self._has_tables(connection):
                    tables.metadata.create_all(connection)
                    row = {"key": "format", "value": json.dumps(tables.FORMAT)}
                    connection.execute(insert(tables.about).values(row))
        except SQLAlchemyError:
            # Another process may have made them between the look and the making.
            with self._reader.connect() as connection:
                if not self._has_tables(connection):
                    raise

    def _has_tables(self, connection: Connection) -> bool:
        """Whether there is a gradebook; False where there is room for one. Raises GradebookError for anything else."""
        if connection.dialect.name == "postgresql":
            encoding = connection.scalar(text("SHOW server_encoding"))
            if encoding != "UTF8":
                raise GradebookError(
                    f"the database {self.shown} keeps text as {encoding}, which lacks the letters of most names: "
                    "create it with ENCODING 'UTF8'"
                )
        present = set(inspect(connection).get_table_names())
        own = present & set(tables.metadata.tables)
        if not own and (not present or self._file is None):
            return False
        found = _format(connection) if "about" in own else None
        if found is None:
            others = ", ".join(sorted(own or present)[:3])
            raise GradebookError(
                f"{self.shown} holds tables of something else ({others}): give the gradebook a database of its own"
            )
        if found != tables.FORMAT:
            raise GradebookError(
                f"the gradebook {self.shown} has format {found} and this lockstep reads {tables.FORMAT}: "
                + ("update lockstep" if found > tables.FORMAT else "use the version that wrote it")
            )
        return True


def _url(place: str | Path) -> URL:
    if isinstance(place, str) and "://" in place:
        try:
            return make_url(place)
        except (ArgumentError, ValueError) as error:
            raise GradebookError(
                "the gradebook cannot be opened: its place is neither a path nor a URL such as "
                "postgresql://user@host/database"
            ) from error
    path = Path(place).absolute()
    return URL.create("sqlite", database=str(path / FILE if path.is_dir() else path))


def _file(url: URL) -> Path | None:
    """The SQLite file; None where there is none."""
    if url.get_backend_name() != "sqlite" or url.database in {None, "", ":memory:"}:
        return None
    return Path(str(url.database)).absolute()


def _format(connection: Connection) -> int | None:
    try:
        with connection.begin_nested():
            kept = connection.scalar(select(tables.about.c.value).where(tables.about.c.key == "format"))
        found = json.loads(str(kept))
    except (SQLAlchemyError, ValueError):
        return None
    return found if isinstance(found, int) else None


# SQLite


def _prepare_sqlite(connection: Any, journal: str) -> None:
    """Let readers read while one process writes, and writers wait for each other (sqlite.org/wal.html)."""
    connection.isolation_level = None  # or the module begins transactions itself, after the first reads
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    if journal:
        cursor.execute(f"PRAGMA journal_mode={journal}")
        # With a log beside the file a power cut may cost the last checks, and nothing else does; never the file.
        in_force = cursor.execute("PRAGMA journal_mode").fetchone()[0]
        cursor.execute(f"PRAGMA synchronous={'NORMAL' if in_force == 'wal' else 'FULL'}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """A writer waits its turn before it reads: one that read first would be refused, not made to wait."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _is_writable(file: Path) -> bool:
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def _read_only(file: Path) -> URL:
    # Without leave to write beside the file SQLite reads it only when told that nobody else does either.
    query = {"uri": "true", "mode": "ro"}
    if not Path(f"{file}-wal").exists():
        query["immutable"] = "1"
    return URL.create("sqlite", database=f"file:{quote(str(file))}", query=query)


_NETWORK = frozenset(
    "9p afs beegfs ceph cifs glusterfs gpfs lustre ncpfs nfs nfs4 orangefs panfs pvfs2 smb3 smbfs vboxsf".split()
)


def _network_file_system(file: Path) -> str:
    """The kind of network file system that a file is on, or nothing: a shared log works on one machine only."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    kind = kind_of_file_system(file.resolve(), mounts)
    return kind if kind in _NETWORK or kind.startswith("fuse.") else ""


def kind_of_file_system(path: Path, mounts: str) -> str:
    """The kind of file system that an absolute path is on, by the lines of /proc/self/mountinfo (see proc(5))."""
    kinds: dict[Path, str] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), before.split()[4])
        kinds[Path(point)] = after.split()[0]
    return next((kinds[folder] for folder in path.parents if folder in kinds), "")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    # A file of its own: closing a second handle of SQLite's would end SQLite's own locks.
    path = file.with_name(f".{file.name}.lock")
    while True:
        try:
            handle = path.open("a+")
        except OSError as error:
            raise GradebookError(f"{path} cannot be written: {error.strerror}") from error
        with handle:
            if not _lock(handle):
                handle.seek(0)
                raise HeldError(
                    f"another process is grading into {file}: {handle.read(200).strip() or 'it does not say which'}"
                )
            try:
                # Whoever held it may have removed it since it was opened here.
                current = path.stat().st_ino == os.fstat(handle.fileno()).st_ino
            except FileNotFoundError:
                current = False
            if not current:
                continue
            handle.truncate(0)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            handle.write(f"process {os.getpid()} on {socket.gethostname()}, since {now}\n")
            handle.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _lock(handle: TextIO) -> bool:
    """Lock a file as long as this process lives, children not included; True where the system knows no locks."""
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in {errno.EACCES, errno.EAGAIN}
    return True


def _reason(error: Exception) -> str:
    said = str(getattr(error, "orig", None) or error)
    line = next((line.strip() for line in said.splitlines() if line.strip()), type(error).__name__)
    tip = next((tip for words, tip in _WHAT_TO_TRY.items() if words in line), "")
    return f"{line}: {tip}" if tip else line
