"""Errors of databases as errors of a Norman API."""

from __future__ import annotations

import sqlite3

from opsdk.base.extras import RequiredExtra
from opsdk.norman.codes import ErrorCode
from opsdk.norman.errors import NormanError

with RequiredExtra("norman-sql", "a store on SQL"):
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError


_UNKNOWN_OUTCOME = "the write may have been stored: read the object, then try again"

_SQLITE = {
    "SQLITE_BUSY": (ErrorCode.CLUSTER_UNAVAILABLE, "another process holds the lock of the database: try again"),
    "SQLITE_LOCKED": (ErrorCode.CLUSTER_UNAVAILABLE, "another process holds the lock of the database: try again"),
    "SQLITE_FULL": (ErrorCode.SERVER_ERROR, "the disk of the database is full: nothing was stored; free space"),
    "SQLITE_IOERR": (ErrorCode.SERVER_ERROR, "the file of the database cannot be read or written: check the disk"),
    "SQLITE_READONLY": (ErrorCode.SERVER_ERROR, "the file of the database is read-only: change its permissions"),
    "SQLITE_CANTOPEN": (
        ErrorCode.SERVER_ERROR,
        "the file of the database cannot be opened: check path and permissions",
    ),
    "SQLITE_CORRUPT": (ErrorCode.SERVER_ERROR, "the file of the database is damaged: restore a backup"),
    "SQLITE_NOTADB": (ErrorCode.SERVER_ERROR, "the file is not a SQLite database: check the path"),
}

# Classes of SQLSTATE, the first two characters.
_POSTGRESQL = {
    "08": (ErrorCode.CLUSTER_UNAVAILABLE, f"the connection to the database is lost; {_UNKNOWN_OUTCOME}"),
    "25": (ErrorCode.SERVER_ERROR, "the database is read-only: connect to the primary server"),
    "28": (ErrorCode.SERVER_ERROR, "the database rejected the user: check the credentials in its URL"),
    "3D": (ErrorCode.SERVER_ERROR, "the database does not exist: create it, or check its URL"),
    "40": (ErrorCode.CONFLICT, "a concurrent write was committed first: try again"),
    "42": (ErrorCode.SERVER_ERROR, "the user of the database may not use or create its tables: grant the permissions"),
    "53": (ErrorCode.SERVER_ERROR, "the database has no disk space, memory or connections left: nothing was stored"),
    "55": (ErrorCode.CLUSTER_UNAVAILABLE, "another process holds a lock of the database: try again"),
    "57": (
        ErrorCode.CLUSTER_UNAVAILABLE,
        f"the database is shutting down or has ended the connection; {_UNKNOWN_OUTCOME}",
    ),
}


def norman_error(error: SQLAlchemyError) -> NormanError:
    """Return the error for a client. The driver's error is its cause, for the log."""
    if isinstance(error, PoolTimeoutError):
        return ErrorCode.CLUSTER_UNAVAILABLE.error("all connections to the database are in use: try again")
    cause = error.orig if isinstance(error, DBAPIError) else None
    if isinstance(cause, sqlite3.Error):
        # Extended codes, such as SQLITE_IOERR_WRITE, begin with the primary one.
        name = "_".join(str(getattr(cause, "sqlite_errorname", "")).split("_")[:2])
        code, message = _SQLITE.get(name, (ErrorCode.SERVER_ERROR, f"the database rejected the request: {cause}"))
        return code.error(message)
    state = getattr(cause, "sqlstate", None)
    if state is None and cause is not None:
        # The driver has no response of the server.
        return ErrorCode.CLUSTER_UNAVAILABLE.error(f"the database cannot be reached; {_UNKNOWN_OUTCOME}")
    code, message = _POSTGRESQL.get(
        str(state)[:2], (ErrorCode.SERVER_ERROR, f"the database rejected the request: {error}")
    )
    return code.error(message)


def is_serialization_failure(error: SQLAlchemyError) -> bool:
    """Whether a transaction changed nothing and can run again: SQLSTATE class 40."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    return str(getattr(cause, "sqlstate", None) or "").startswith("40")
