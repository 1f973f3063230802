"""Responders: test functions that handle exec, logs and proxy requests for pods and nodes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec

from opsdk.apiserver.streams.pipe import Pipe
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject

__all__ = ["Command", "Responders"]

Logs = Callable[[JsonObject, str], "bytes | str | AsyncGenerator[bytes, None] | Awaitable[bytes | str]"]
"""Returns the log of a container of a pod; a generator is streamed."""

Proxied = Callable[[JsonObject, str, HttpRequest], "HttpResponse | Awaitable[HttpResponse]"]
"""Returns the response of a pod, service or node to a proxied request, by the path behind ``proxy``."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """An exec or attach request to a container.

    Attributes:
        pod: the stored pod.
        argv: the command and its arguments; empty if the client attaches to the running process.
        stdin: whether the client sends input.
        stdout: whether the client reads the output; `stderr` likewise. A `tty` merges both.
    """

    pod: JsonObject
    container: str
    argv: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


Run = Callable[[Command, Pipe], Awaitable["int | None"]]
"""Simulates a container: reads input, writes output, returns the exit code (None is 0)."""
Forwarded = Callable[[JsonObject, int, Pipe], Awaitable[None]]
"""Simulates a server on a port of a pod: handles one connection, which ends when it returns."""


class Responders:
    """Test functions that respond for pods, services and nodes; None makes the kubelet unreachable."""

    def __init__(self) -> None:
        self.logs: Logs | None = None
        self.proxied: Proxied | None = None
        self.run: Run | None = None
        self.forwarded: Forwarded | None = None
