"""Refuses connections of this process while an operator runs on a fork: nothing else may be reached.

An audit hook of Python sees each connection before it is made, also those of other libraries, as long as they use
Python's sockets. Libraries that open sockets in C code of their own are not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["ForbiddenConnectionError", "exempt_tasks", "refusal_of", "refuse_connections"]

_LOOK_UPS: Final = frozenset({"socket.getaddrinfo", "socket.gethostbyaddr", "socket.gethostbyname"})
_PROGRAMS: Final = frozenset({"os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"})
_EVENTS: Final = frozenset({"socket.connect", "socket.sendmsg", "socket.sendto"}) | _LOOK_UPS | _PROGRAMS
"""Audit events of Python. A fork raises none of its own: what it reaches has one."""


class ForbiddenConnectionError(ConnectionRefusedError):
    """A connection that a plan or a verification does not allow."""


class _Guard:
    """The hosts that are allowed while a run lasts, and the attempts that were refused."""

    def __init__(self, allowed: Collection[str], names: Collection[str], subject: str) -> None:
        self.allowed, self.names, self.subject = frozenset(allowed), frozenset(names), subject
        self.refused: dict[str, None] = {}

    def check(self, event: str, arguments: tuple[object, ...]) -> None:
        if _exempt.get() or (event == "socket.sendmsg" and arguments[1] is None):  # a connected socket
            return
        target = _target(event, arguments)
        host = _host(target)
        if host in self.allowed or target in self.allowed:
            return
        if event in _LOOK_UPS and host in self.names:
            return
        self.refused[target] = None
        raise ForbiddenConnectionError(refusal_of(target, self.subject))


_exempt: ContextVar[bool] = ContextVar("exempt", default=False)
_guards: list[_Guard] = []
_state = {"installed": False}


def refusal_of(target: str, subject: str) -> str:
    """Return the sentence that names a target which was not reached, and says what to add.

    >>> refusal_of("db.example.com:5432", "the plan")
    'the plan does not reach db.example.com:5432: declare doubles, or --allow-host db.example.com (allowed_hosts)'
    """
    return f"{subject} does not reach {target}: declare doubles, or --allow-host {_host(target)} (allowed_hosts)"


def _host(target: str) -> str:
    return target.rpartition(":")[0] or target


def _target(event: str, arguments: tuple[object, ...]) -> str:
    """Return what would be reached, as ``HOST:PORT``, a path, or a program."""
    if event in _LOOK_UPS:
        text, port = _text(arguments[0]), arguments[1] if event == "socket.getaddrinfo" else None
        return f"{text}:{port}" if port else text
    if event in _PROGRAMS:
        return f"program {_text(arguments[0])}"
    address = arguments[1]
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return _text(address)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    # Each import and each opened file calls this: the two comparisons must stay cheap.
    if _guards and event in _EVENTS:
        _guards[-1].check(event, arguments)


@contextmanager
def exempt_tasks() -> Iterator[None]:
    """In the block, and in tasks that begin there, connections are not refused: a plan reads the cluster in them.

    A look-up of a name runs in a thread, which has no task: pass the name to `refuse_connections`.
    """
    token = _exempt.set(True)
    try:
        yield
    finally:
        _exempt.reset(token)


@contextmanager
def refuse_connections(
    allowed: Collection[str] = (), *, names: Collection[str] = (), subject: str = "the plan"
) -> Iterator[Collection[str]]:
    """In the block, connections, look-ups of names and new processes raise `ForbiddenConnectionError`.

    Yields the refused targets, each once; it grows while the block runs.

    Args:
        allowed: hosts, or ``HOST:PORT``, that may be reached.
        names: that may be looked up, but not reached.
        subject: what does not reach the target, in the message.

    >>> import socket
    >>> with refuse_connections() as refused:
    ...     try:
    ...         socket.create_connection(("db.example.com", 5432))
    ...     except ConnectionRefusedError as error:
    ...         print(error)
    the plan does not reach db.example.com:5432: declare doubles, or --allow-host db.example.com (allowed_hosts)
    >>> list(refused)
    ['db.example.com:5432']
    """
    if not _state["installed"]:
        sys.addaudithook(_hook)
        _state["installed"] = True
    guard = _Guard(allowed, names, subject)
    _guards.append(guard)
    try:
        yield guard.refused.keys()
    finally:
        _guards.remove(guard)
