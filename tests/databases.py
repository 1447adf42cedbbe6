"""Both databases for tests: a file of SQLite, and a database of a real PostgreSQL started for this worker.

A test asks for `database_url` (both, one after the other), `postgresql_url` or `sqlite_url`: each a new and
empty database; or for `record_url`, where the tables may be there already, which is quicker. `PostgreSQL`
starts a server of one's own. `ledger` is an open record, new and empty, in both; `lease` the right to write
to it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Lease

NEEDED = ("initdb", "pg_ctl", "postgres")
SETTINGS = {
    "listen_addresses": "",  # a socket in its own folder: no port to collide on
    "fsync": "off",  # the machine does not lose its power in a test
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
}


def programs() -> Path | None:
    """Folder of the server's programs; Debian keeps them out of the PATH."""
    found = [Path(path) for name in NEEDED if (path := shutil.which(name))]
    if len(found) == len(NEEDED):
        return found[0].parent
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if all((folder / name).exists() for name in NEEDED):
            return folder
    return None


class PostgreSQL:
    """A PostgreSQL in a folder of its own, which goes with it. Root hands it to the user postgres."""

    def __init__(self) -> None:
        folder = programs()
        if folder is None:
            pytest.skip("no PostgreSQL here (Debian: apt install postgresql)")
        self._programs = folder
        self._as: list[str] = []
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-pg-"))
        self._made = 0
        self._template = ""
        if os.geteuid() == 0:
            try:
                shutil.chown(self.folder, "postgres")
            except LookupError:
                self.folder.rmdir()
                pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres")
            self._as = ["runuser", "-u", "postgres", "--"]
        self._run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self.start()

    def start(self) -> None:
        options = " ".join(f"-c {key}='{value}'" for key, value in SETTINGS.items())
        log = str(self.folder / "log")
        self._run("pg_ctl", "-w", "-s", "-l", log, "-o", f"-k {self.folder} {options}", "start")

    def stop(self, mode: str = "fast") -> None:
        """`fast` asks everybody to leave; `immediate` is as if it had crashed."""
        self._run("pg_ctl", "-w", "-s", "-m", mode, "stop")

    def end(self) -> None:
        try:
            self.stop("immediate")
        except AssertionError:
            pass  # it is down already
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._programs / program), "-D", str(self.folder / "data"), *arguments]
        # not through pipes: the server would keep them open
        with (self.folder / "out").open("a+") as out:
            done = subprocess.run(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd="/")
            out.seek(0)
            assert done.returncode == 0, f"{program}: {out.read()[-2000:]}"

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}"

    def new_database(self, template: str = "template0") -> str:
        """URL of a new database, empty or a copy."""
        self._made += 1
        name = f"record_{self._made}"
        self.say(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def new_record(self) -> str:
        """URL of a new database with the tables of a record."""
        if not self._template:
            url = self.new_database()
            open_ledger(url).close()
            self._template = f"record_{self._made}"
        return self.new_database(self._template)

    def say(self, statement: str) -> None:
        """A statement outside of any transaction, as the server's owner."""
        import psycopg

        with psycopg.connect(host=str(self.folder), user="postgres", autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A server for all tests of this worker."""
    server = PostgreSQL()
    yield server
    server.end()


@pytest.fixture
def postgresql_url(postgresql: PostgreSQL) -> str:
    return postgresql.new_database()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return str(tmp_path / "record.db")


@pytest.fixture
def postgresql_record_url(postgresql: PostgreSQL) -> str:
    return postgresql.new_record()


@pytest.fixture
def sqlite_record_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(params=["sqlite", "postgresql"])
def record_url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_record_url")


@pytest.fixture
def ledger(record_url: str) -> Iterator[Ledger]:
    opened = open_ledger(record_url)
    yield opened
    opened.close()


@pytest.fixture
def lease(ledger: Ledger) -> Lease:
    found = ledger.lead("one", 0.0, 10.0)
    assert found is not None
    return found
