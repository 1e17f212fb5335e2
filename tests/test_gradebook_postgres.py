"""What test_gradebook.py asks of a gradebook, asked of one in a real PostgreSQL; and what only a server can do wrong.

Only `make postgres` runs these tests: they need Debian's postgresql.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text

from lockstep.classroom.gradebook import Gradebook, GradebookError, open_gradebook
from tests import postgres_cluster
from tests.gradebook_child import SECONDS, STUDENT, child
from tests.postgres_cluster import Server
from tests.test_gradebook import *  # noqa: F403 - every test of it, with the fixture `place` from here

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if missing := postgres_cluster.missing_programs():
        pytest.fail(f"{', '.join(missing)} not found; `make postgres` installs Debian's postgresql")
    with postgres_cluster.server() as running:
        yield running


def _do(server: Server, *statements: str, database: str = "postgres") -> None:
    engine = create_engine(server.url(database), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture
def place(server: Server) -> str:
    """A schema of its own."""
    schema = f"s{uuid.uuid4().hex}"
    _do(server, f"CREATE SCHEMA {schema}")
    return server.url(schema=schema)


def test_connections_that_the_server_ended_are_made_anew(server: Server, place: str) -> None:
    with open_gradebook(place) as book, book.grading():
        book.enroll([STUDENT])
        _do(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        book.enroll([STUDENT])
        assert len(book.records()) == 1


def test_two_gradebooks_of_one_database_do_not_keep_each_other_out(server: Server, place: str) -> None:
    _do(server, "CREATE SCHEMA beside")
    other = server.url(schema="beside")
    with open_gradebook(place) as book, open_gradebook(other) as beside, book.grading(), beside.grading():
        assert beside.records() == ()
    with child(place, "hold") as process, open_gradebook(other) as beside:
        assert process.stdout is not None
        process.stdout.readline()
        with beside.grading():
            process.communicate("", SECONDS)
    assert process.returncode == 0


def test_tables_of_something_else_are_left_alone(server: Server, place: str) -> None:
    schema = place.rpartition("%3D")[2]
    _do(server, f"CREATE TABLE {schema}.orders (id int)")
    open_gradebook(place).close()
    _do(server, f"CREATE SCHEMA {schema}x", f"CREATE TABLE {schema}x.students (number int)")
    with pytest.raises(GradebookError, match=r"tables of something else \(students\)"):
        open_gradebook(f"{place}x")


def test_a_database_that_lacks_the_letters_of_names_is_refused(server: Server) -> None:
    _do(server, "CREATE DATABASE old ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(GradebookError, match="keeps text as LATIN1"):
        open_gradebook(server.url("old"))


def test_who_may_only_read_reads(server: Server, place: str, book: Gradebook) -> None:
    schema = place.rpartition("%3D")[2]
    _do(
        server,
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO reader",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader",
    )
    with open_gradebook(place.replace(f"{server.user}@", "reader@"), create=False) as reading:
        assert reading.records() == book.records()
        with pytest.raises(GradebookError, match="cannot be written: permission denied"):
            reading.enroll([STUDENT])
    _do(server, "DROP OWNED BY reader", "DROP ROLE reader")


def test_a_server_that_is_not_there_is_a_sentence_without_the_password(server: Server) -> None:
    for url in ("postgresql://kim:secret@/x?host=/nowhere", f"{server.url('nosuch')}"):
        with pytest.raises(GradebookError, match="cannot be opened") as refused:
            open_gradebook(url)
        assert "secret" not in str(refused.value)
        assert "\n" not in str(refused.value)
