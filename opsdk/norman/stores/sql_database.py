"""A database of `SqlStore`s: connections, threads, transactions."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any, Final, TypeVar

from opsdk.aio.closing import Closing
from opsdk.base.extras import RequiredExtra
from opsdk.base.options import Options
from opsdk.errors import ConfigError
from opsdk.norman.codes import ErrorCode
from opsdk.norman.stores.sql_errors import is_serialization_failure, norman_error
from opsdk.norman.stores.sql_tables import metadata

with RequiredExtra("norman-sql", "a store on SQL"):
    from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
    from sqlalchemy.pool import StaticPool

__all__ = ["SqlDatabase", "SqlOptions"]


T = TypeVar("T")

# The lock of PostgreSQL under which tables and collections are created; any number that other programs do not use.
_SETUP_LOCK: Final = 0x6E6F726D
_SERIALIZATION_TRIES: Final = 5
_LOCK_POLL_SECONDS: Final = 0.01


class SqlOptions(Options, frozen=True, kw_only=True):
    """Options of a `SqlDatabase`. Times are in seconds.

    Attributes:
        threads: transactions that run at once, each in a thread with a connection. In SQLite, only one of them writes.
        lock_timeout: time that a write waits for a lock of another process, and a request for a connection.
    """

    threads: int = 4
    lock_timeout: float = 5.0


class TransactionMode(Enum):
    """The mode of a transaction."""

    READ = "read"
    """It sees one state of the database."""
    WRITE = "write"
    """It waits for other writers."""
    SETUP = "setup"
    """It creates tables, under a lock between all processes."""


class SqlDatabase(Closing):
    """Runs transactions in threads, so that a slow disk does not stop the event loop.

    >>> SqlDatabase("sqlite:////var/lib/shop.db")
    <SqlDatabase sqlite:////var/lib/shop.db>

    Args:
        url: as for SQLAlchemy: ``sqlite:////var/lib/shop.db``, ``sqlite:///:memory:`` for tests, or
            ``postgresql+psycopg://user:password@host/database``. Other databases are errors.
        options: see `SqlOptions`.

    Raises:
        ConfigError: the URL is not one of these, or the driver is not installed.
    """

    def __init__(self, url: str, options: SqlOptions | None = None) -> None:
        self._options = options or SqlOptions()
        try:
            self._url = make_url(url)
            self._engine = self._make_engine()
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise ConfigError(f"cannot open the database: {error}; check the URL, and install its driver") from error
        readers, writers = self._options.threads, 1 if self._is_sqlite else self._options.threads
        self._writers = ThreadPoolExecutor(writers, thread_name_prefix="norman-sql-write")
        self._readers = self._writers if self._is_memory else ThreadPoolExecutor(readers, "norman-sql-read")
        self._created = False
        self._closed = False

    @property
    def _is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    @property
    def _is_memory(self) -> bool:
        return self._is_sqlite and self._url.database in (None, "", ":memory:")

    async def run(self, mode: TransactionMode, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction, in a thread, and commit it.

        If the caller is cancelled, the transaction still ends: it is committed or rolled back as a whole.

        Raises:
            NormanError: the error of `work`, or of the database (see `norman_error`). Nothing was stored, unless the
                message says otherwise.
        """
        if self._closed:
            raise ErrorCode.CLUSTER_UNAVAILABLE.error("the database is closed: the server is stopping")
        if not self._created:
            await self._submit(self._writers, TransactionMode.SETUP, metadata.create_all)
            self._created = True
        return await self._submit(self._readers if mode is TransactionMode.READ else self._writers, mode, work)

    async def aclose(self) -> None:
        """Wait for running transactions, and close all connections. Idempotent."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        for executor in {self._readers, self._writers}:
            await loop.run_in_executor(None, executor.shutdown)
        self._engine.dispose()

    async def _submit(self, executor: ThreadPoolExecutor, mode: TransactionMode, work: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, self._transaction, mode, work)

    def _transaction(self, mode: TransactionMode, work: Callable[[Connection], T]) -> T:
        for last in (*[False] * (_SERIALIZATION_TRIES - 1), True):
            try:
                return self._attempt(mode, work)
            except SQLAlchemyError as error:
                if last or not is_serialization_failure(error):
                    raise norman_error(error) from error
            except OverflowError as error:
                raise ErrorCode.INVALID_BODY_CONTENT.error(f"the database cannot store a value: {error}") from error
        raise AssertionError("the last try returns or raises")

    def _attempt(self, mode: TransactionMode, work: Callable[[Connection], T]) -> T:
        snapshot: Any = (
            {} if self._is_sqlite or mode is not TransactionMode.READ else {"isolation_level": "REPEATABLE READ"}
        )
        with self._engine.connect() as plain:
            connection = plain.execution_options(mode=mode, **snapshot)
            with connection.begin():
                if not self._is_sqlite and mode is TransactionMode.SETUP:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _SETUP_LOCK})
                return work(connection)

    def _make_engine(self) -> Engine:
        """Return the engine of the URL. Raises `ArgumentError` unless it is one of SQLite or PostgreSQL."""
        timeout = self._options.lock_timeout
        if self._is_sqlite:
            arguments: dict[str, Any] = {"timeout": timeout, "check_same_thread": False}
            pool: dict[str, Any] = {"poolclass": StaticPool} if self._is_memory else {}
            engine = create_engine(self._url, connect_args=arguments, **pool)
            event.listen(engine, "connect", lambda connection, _: _configure_sqlite(connection, timeout))
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        if self._url.get_backend_name() != "postgresql":
            raise ArgumentError(f"{self._url.drivername} is neither sqlite nor postgresql")
        return create_engine(
            self._url,
            # A custom plan for each value: a generic plan assumes that every value is rare.
            connect_args={"options": f"-c lock_timeout={round(timeout * 1000)} -c plan_cache_mode=force_custom_plan"},
            pool_size=self._options.threads * 2,
            max_overflow=0,
            pool_timeout=timeout,
            # A connection that the server has closed is replaced before a transaction begins.
            pool_pre_ping=True,
        )

    def __repr__(self) -> str:
        return f"<SqlDatabase {self._url.render_as_string(hide_password=True)}>"


def _configure_sqlite(connection: sqlite3.Connection, timeout: float) -> None:
    # Disable the driver's own transactions, so that reads also get one: https://docs.sqlalchemy.org, pysqlite.
    connection.isolation_level = None
    cursor = connection.cursor()
    _set_wal(cursor, time.monotonic() + timeout)
    # A commit is on the disk before the response to the client.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _set_wal(cursor: sqlite3.Cursor, deadline: float) -> None:
    """Set the journal mode in which readers do not wait for the writer. It is a property of the file."""
    while cursor.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # The driver's timeout does not hold here: of two processes that open a new file, one fails at once.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_SECONDS)


def _begin_sqlite(connection: Connection) -> None:
    read = connection.get_execution_options().get("mode") is TransactionMode.READ
    # A transaction that becomes a writer later fails if another one wrote in the meantime.
    connection.exec_driver_sql("BEGIN" if read else "BEGIN IMMEDIATE")
