"""A database that takes no more writes."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, Self

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.apiserver.storage.sqlite import SqliteStorage
from opsdk.errors import ServiceUnavailableError

MAPS = "/api/v1/namespaces/default/configmaps"


class Database(sqlite3.Connection):
    """A connection that fails at its next statements, if it has an error."""

    error: sqlite3.Error | None = None

    def __enter__(self) -> Self:
        if self.error is not None:
            raise self.error
        return super().__enter__()

    def limit_pages(self, pages: int) -> None:
        """Let the file have so many pages: SQLite reports more as it reports a full disk."""
        self.execute(f"PRAGMA max_page_count = {pages}")


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> list[Database]:
    """The connections that storages open from now on."""
    opened: list[Database] = []
    connect = sqlite3.connect

    def recorded(path: Path, **options: Any) -> Database:
        opened.append(connect(path, factory=Database, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    return opened


async def test_a_full_disk_is_a_status_and_not_ready(tmp_path: Path, databases: list[Database]) -> None:
    """A write responds with 503 and the reason, readiness fails until a write is stored, and nothing else changes."""
    storage = SqliteStorage(tmp_path / "objects.db")
    async with Environment(storage=storage) as env:
        call = Caller(env)
        assert (await call("POST", MAPS, {"metadata": {"name": "before"}})).status == 201
        assert (await call("GET", "/readyz")).status == 200
        databases[0].limit_pages(1)
        revision = storage.current_rv
        large = {"metadata": {"name": "large"}, "data": {"a": "x" * 500_000}}
        refused = await call("POST", MAPS, large)
        assert (refused.status, refused.json["reason"]) == (503, "ServiceUnavailable")
        assert "the disk of the API server is full" in refused.json["message"]
        assert str(tmp_path) not in refused.json["message"]
        assert refused.headers["retry-after"] == "10"
        ready = await call("GET", "/readyz")
        assert ready.status == 500
        assert b"[-]storage failed: the disk of the API server is full" in ready.raw
        assert (await call("GET", "/readyz?exclude=storage")).status == 200
        assert (await call("GET", "/livez")).status == 200
        assert storage.current_rv == revision
        assert (await call("GET", f"{MAPS}/large")).status == 404
        assert (await call("GET", f"{MAPS}/before")).status == 200
        databases[0].limit_pages(1_000_000)
        assert (await call("POST", MAPS, large)).status == 201
        assert (await call("GET", "/readyz")).status == 200


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_FULL, "is full"),
        (sqlite3.SQLITE_IOERR_WRITE, "fails"),
        (sqlite3.SQLITE_READONLY, "read-only"),
        (sqlite3.SQLITE_MISUSE, "rejects the write"),
    ],
)
def test_each_failure_has_words(tmp_path: Path, databases: list[Database], code: int, words: str) -> None:
    """Whatever SQLite reports is an error of the API, also for callers in this process, and undoes the write."""
    storage = SqliteStorage(tmp_path / "objects.db")
    error = sqlite3.OperationalError("planted")
    error.sqlite_errorcode = code

    databases[0].error = error
    with pytest.raises(ServiceUnavailableError, match=words):
        storage.create_now("core/configmaps/default/a", {"metadata": {"name": "a"}})
    assert words in storage.failure
    databases[0].error = None
    storage.create_now("core/configmaps/default/a", {"metadata": {"name": "a"}})
    assert storage.failure == ""
    storage.close()


def test_writes_of_the_control_plane_survive_a_full_disk(tmp_path: Path, databases: list[Database]) -> None:
    """The server serves reads again after a restart: a failed write has left nothing behind."""
    path = tmp_path / "objects.db"
    storage = SqliteStorage(path)
    storage.create_now("core/configmaps/default/a", {"metadata": {"name": "a"}})
    databases[0].limit_pages(1)
    with pytest.raises(ServiceUnavailableError):
        storage.create_now("core/configmaps/default/b", {"metadata": {"name": "b"}, "data": "x" * 100_000})
    storage.close()
    again = SqliteStorage(path)
    assert [key for key, _ in asyncio.run(again.list("core/configmaps/")).items] == ["core/configmaps/default/a"]
    again.close()
