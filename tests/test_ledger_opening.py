"""Opening a record: what it refuses, and that its schema is what the migrations make."""

from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from databases import PostgreSQL
from tenure.ledger.ledger import open_ledger
from tenure.ledger.migrate import MIGRATIONS
from tenure.ledger.opening import open_database
from tenure.ledger.records import LedgerTooNew, LedgerUnavailable
from tenure.ledger.tables import HEAD, METADATA
from tenure.settings.errors import BadInput


def test_the_schema_is_what_the_migrations_make(database_url: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    database = open_database(database_url)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        found = indexes(connection)
    database.engine.dispose()
    partial = {"commands_unanswered", "orders_open", "notes_open", "jobs_by_array"}
    assert {name for name, made in found.items() if " WHERE " in made} == partial


def indexes(connection: Any) -> dict[str, str]:
    """{name: statement that makes it}"""
    if connection.dialect.name == "sqlite":
        asked = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    else:
        asked = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
    return dict(map(tuple, connection.execute(text(asked))))


def test_the_newest_revision_is_the_one_the_code_knows() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_names_are_ordered_byte_by_byte_in_both(database_url: str) -> None:
    from turn_rows import bare_turn, job_row

    ledger = open_ledger(database_url)
    lease = ledger.lead("one", 0.0, 10.0)
    assert lease is not None
    names = ["vision", "vision/a", "vision/Z", "vision-b", "vision0", "Vision/a", "visio/n", "vision/ä"]
    ledger.record(bare_turn(1, jobs=[job_row(name, account=name) for name in names]), lease)
    found = [job.account for job in ledger.jobs(account="vision")]
    ledger.close()
    assert found == ["vision", "vision/a", "vision/Z", "vision/ä"]


def test_a_record_of_a_newer_release_is_refused(database_url: str) -> None:
    database = open_database(database_url)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.engine.dispose()
    with pytest.raises(LedgerTooNew, match="revision '9999'"):
        open_ledger(database_url)


def test_many_servers_may_open_a_new_record_at_once(database_url: str) -> None:
    wrong: list[BaseException] = []

    def begin() -> None:
        try:
            start.wait()
            ledger = open_ledger(database_url)
            ledger.begin("lab", 5.0)
            ledger.close()
        except BaseException as error:
            wrong.append(error)

    start = threading.Barrier(5)
    threads = [threading.Thread(target=begin) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_database_of_something_else_is_left_alone(database_url: str) -> None:
    database = open_database(database_url)
    with database.engine.begin() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    database.engine.dispose()
    with pytest.raises(BadInput, match="tables of something else"):
        open_ledger(database_url)


def test_nothing_is_made_where_a_record_should_be(database_url: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a record that is there"):
        open_ledger(database_url, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("", "''"),
        ("  ", "' '"),
        ("mysql://root@host/lab", "'mysql'"),
        ("postgresql+psycopg://ann:secret@host", "without a database"),
        ("postgresql://ann:secret@host:port/lab", "postgresql"),
        ("sqlite://", "memory"),
        ("sqlite:///:memory:", "memory"),
        ("sqlite:///a.db?mode=ro", "mode=ro"),
        ("://", "://…"),
        ("a\0b", "a"),
    ],
)
def test_a_wrong_url_is_one_sentence_that_tells_no_password(url: str, found: str) -> None:
    with pytest.raises(BadInput) as wrong:
        open_ledger(url)
    assert found in str(wrong.value)
    assert "secret" not in str(wrong.value)
    assert "postgresql+psycopg://USER@HOST/DATABASE" in str(wrong.value)


def test_a_path_that_cannot_be_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the folder"):
        open_ledger(tmp_path)
    with pytest.raises(BadInput, match="no folder"):
        open_ledger(tmp_path / "absent" / "record.db")
    text_file = tmp_path / "notes.txt"
    text_file.write_text("not a database, and long enough to be looked at\n" * 100)
    with pytest.raises(BadInput, match="not a database"):
        open_ledger(text_file)
    assert text_file.read_text().startswith("not a database")


def test_a_postgresql_without_that_database_or_user_is_a_wrong_url(postgresql: PostgreSQL) -> None:
    with pytest.raises(BadInput, match='database "absent" does not exist'):
        open_ledger(postgresql.url("absent"))
    with pytest.raises(BadInput, match='role "nobody_here" does not exist'):
        open_ledger(postgresql.url("postgres").replace("postgres@", "nobody_here@"))


def test_a_postgresql_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="No such file or directory"):
        open_ledger(f"postgresql+psycopg://postgres@/lab?host={tmp_path}")


def test_a_file_of_sqlite_keeps_what_it_must_and_is_for_its_owner_only(sqlite_url: str) -> None:
    ledger = open_ledger(sqlite_url)
    with ledger._db.reading() as connection:
        asked = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "auto_vacuum")
        found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in asked}
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 10_000,
        "auto_vacuum": 2,
    }
    ledger.set_meta("a", 1)
    for file in Path(sqlite_url).parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    ledger.close()
    assert sqlite3.connect(sqlite_url).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_removed_under_an_open_record_takes_no_more_writes(tmp_path: Path) -> None:
    path, away = tmp_path / "record.db", tmp_path / "away.db"
    record = open_ledger(path)
    record.set_meta("a", 1)
    path.rename(away)
    with pytest.raises(LedgerUnavailable, match="removed or replaced"):
        record.set_meta("a", 2)
    path.touch()
    with pytest.raises(LedgerUnavailable, match="removed or replaced"):
        record.set_meta("a", 3)
    away.replace(path)
    record.set_meta("a", 4)
    assert record.meta("a") == 4
    record.close()
