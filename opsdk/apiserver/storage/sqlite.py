"""A durable storage: objects in memory, backed by SQLite.

Each change is in the write-ahead log before it is visible, so an acknowledged write survives ``kill -9``. Opening loads
the objects but no history, so watches from before a restart must list again.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import ChangeType, StorageChange
from opsdk.errors import ConfigError, Details, ServiceUnavailableError

__all__ = ["SqliteStorage"]

log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS revision (id INTEGER PRIMARY KEY CHECK (id = 0), number INTEGER NOT NULL);
INSERT OR IGNORE INTO revision VALUES (0, 1);
"""


def make_private(path: Path) -> None:
    """Create a database file that only its owner can read: it holds Secrets. SQLite gives its log the same mode.

    A new folder is private too. Files of an earlier server lose the permissions of others.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        file = path.with_name(name)
        if file.exists():
            file.chmod(0o600)


_FAILURES = {
    sqlite3.SQLITE_FULL: "the disk of the API server is full",
    sqlite3.SQLITE_READONLY: "the database of the API server is read-only",
    sqlite3.SQLITE_BUSY: "another process uses the database of the API server",
    sqlite3.SQLITE_IOERR: "the disk of the API server fails",
    sqlite3.SQLITE_CORRUPT: "the database of the API server is damaged",
}


def _failure(error: sqlite3.Error) -> str:
    """Return in words why a write failed. The low byte of an extended code is the primary one."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _FAILURES.get(code, "the database of the API server rejects the write")


class SqliteStorage(MemoryStorage):
    """A `MemoryStorage` that persists its objects in the file `path`, for one process at a time."""

    def __init__(self, path: Path, *, history_limit: int = 10_000, watch_limit: int = 10_000) -> None:
        self._path = path
        try:
            make_private(path)
            db = sqlite3.connect(path, isolation_level=None, timeout=2)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            # One process for one file: a second one would issue the same revisions.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.executescript(_SCHEMA)
            self._db: sqlite3.Connection | None = db
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(f"cannot open the database {path}: {error}; is another server using it?") from error
        revision = int(self._db.execute("SELECT number FROM revision").fetchone()[0])
        super().__init__(revision=revision, history_limit=history_limit, watch_limit=watch_limit, journal=self._write)
        for key, value in self._db.execute("SELECT key, value FROM objects"):
            self.load(key, msgspec.json.decode(value), floor=revision)
        self._floor = revision

    def _write(self, changes: Sequence[StorageChange], revision: int) -> None:
        db = self._db
        if db is None:
            raise RuntimeError(f"{self._path} is closed and takes no writes")
        try:
            with db:
                db.execute("BEGIN IMMEDIATE")
                for change in changes:
                    if change.kind is ChangeType.PUT:
                        raw = msgspec.json.encode(change.value)
                        db.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (change.key, raw))
                    else:
                        db.execute("DELETE FROM objects WHERE key = ?", (change.key,))
                db.execute("UPDATE revision SET number = ?", (revision,))
        except sqlite3.Error as error:
            self.failure = _failure(error)
            log.error("cannot write %s: %s", self._path, error)
            # Without the path: clients must not see it.
            raise ServiceUnavailableError(
                f"{self.failure}, so nothing was written: try again", details=Details(retry_after_seconds=10)
            ) from error
        self.failure = ""

    def close(self) -> None:
        """See `LocalStorage.close`; checkpoints the write-ahead log."""
        super().close()
        db, self._db = self._db, None
        if db is not None:
            db.close()
