"""Fault effects: errors, delays, lost connections, broken watches, stale lists.

Each is a value with one method, `envtest.instruments.effect.Effect.apply`; write your own in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from envtest.instruments.effect import FaultScope
from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.endpoints.status import status_of
from opsdk.apiserver.storage.ports import CompactedError
from opsdk.errors import GoneError, api_error_from_status
from opsdk.http.server.request import Query
from opsdk.http.server.response import CutConnection, CutResponse, HttpResponse, StreamResponse, encode_json

__all__ = [
    "Conflict",
    "Delay",
    "DoubleBookmarks",
    "DropWatch",
    "ExpireWatch",
    "Fail",
    "LateBookmarks",
    "Reset",
    "SlowWatch",
    "StaleList",
    "Truncate",
]

_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired",
    422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip
_TEXTS = {
    429: "Too many requests, please try again later.",
    500: "Internal error occurred: injected",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


@dataclass(frozen=True, slots=True)
class Fail:
    """Return an error, without executing the request.

    Attributes:
        code: the HTTP status.
        reason: the reason of the Status; empty uses the default of the code.
        retry_after: seconds in ``Retry-After``; None sends none.
    """

    code: int = 503
    reason: str = ""
    message: str = ""
    retry_after: int | None = None

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        info = call.info
        details: dict[str, object] = {"name": info.name, "group": info.group, "kind": info.resource}
        details |= {"retryAfterSeconds": self.retry_after} if self.retry_after else {}
        status = {
            "reason": self.reason or _REASONS.get(self.code, ""),
            "message": self.message or _TEXTS.get(self.code, f"injected failure {self.code}"),
            "code": self.code,
            "details": details,
        }
        raise api_error_from_status(status, code=self.code, retry_after=self.retry_after)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Reject a write with 409; set the rule's `times` for repeated conflicts."""

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        info = call.info
        what = f"{info.resource}.{info.group}" if info.group else info.resource
        text = f'Operation cannot be fulfilled on {what} "{info.name}": {api_errors.MODIFIED}'
        return await Fail(409, "Conflict", text).apply(call, handler, scope)


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay a request by seconds of the server's clock, plus at most `jitter` seconds."""

    seconds: float
    jitter: float = 0.0

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        await asyncio.sleep(self.seconds + self.jitter * scope.rng.random())
        return await handler(call)


@dataclass(frozen=True, slots=True)
class Reset:
    """Close the connection without a response; with `after_commit`, after the write is stored."""

    after_commit: bool = False

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        if self.after_commit:
            response = await handler(call)
            if isinstance(response, StreamResponse):
                await response.chunks.aclose()
                if response.release is not None:
                    response.release()
        return CutResponse(0)


@dataclass(frozen=True, slots=True)
class Truncate:
    """Close the connection after half of the response; for a watch, after `after` events and half of the next."""

    after: int = 0

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        response = await handler(call)
        if not isinstance(response, StreamResponse):
            headers = list(response.headers)
            return StreamResponse(response.status, headers, chunks=_first_half(response.body))
        return replace(response, chunks=self._cut(response.chunks))

    async def _cut(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        count = 0
        async with aclosing(chunks):
            async for line in chunks:
                if count == self.after:
                    yield line[: len(line) // 2]
                    raise CutConnection
                count += 1
                yield line


async def _first_half(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body[: len(body) // 2]
    raise CutConnection


LineStream = AsyncGenerator[bytes, None]


async def _watch(call: Call, handler: Handler, change: Callable[[LineStream], LineStream]) -> HttpResponse:
    """Return the response with a changed stream of events; other responses stay."""
    response = await handler(call)
    if not isinstance(response, StreamResponse) or call.info.verb != "watch":
        return response
    return replace(response, chunks=change(_lines(response.chunks)))


async def _lines(chunks: LineStream) -> LineStream:
    """Yield single lines: a chunk has one or more whole lines."""
    async with aclosing(chunks):
        async for chunk in chunks:
            for line in chunk.splitlines(keepends=True):
                yield line


@dataclass(frozen=True, slots=True)
class DropWatch:
    """End a watch after a number of lines; with `cut`, close the connection."""

    after: int = 0
    cut: bool = False

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        return await _watch(call, handler, self._change)

    async def _change(self, lines: LineStream) -> LineStream:
        async for line in _take(lines, self.after):
            yield line
        if self.cut:
            raise CutConnection


async def _take(lines: LineStream, count: int) -> LineStream:
    async with aclosing(lines):
        while count > 0:
            line = await anext(lines, None)
            if line is None:
                return
            count -= 1
            yield line


@dataclass(frozen=True, slots=True)
class ExpireWatch:
    """End a watch with a 410 error event after a number of lines."""

    after: int = 0

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        revision = call.http.query.get("resourceVersion") or "0"

        async def change(lines: LineStream) -> LineStream:
            async for line in _take(lines, self.after):
                yield line
            gone = CompactedError(int(revision) if revision.isdigit() else 0, scope.revision)
            yield (
                encode_json(
                    {
                        "type": "ERROR",
                        "object": status_of(
                            api_errors.expired(f"too old resource version: {gone.requested} ({gone.oldest})")
                        ),
                    }
                )
                + b"\n"
            )

        return await _watch(call, handler, change)


@dataclass(frozen=True, slots=True)
class SlowWatch:
    """Delay each line of a watch by a number of seconds."""

    seconds: float

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        async def change(lines: LineStream) -> LineStream:
            async with aclosing(lines):
                async for line in lines:
                    await asyncio.sleep(self.seconds)
                    yield line

        return await _watch(call, handler, change)


@dataclass(frozen=True, slots=True)
class DoubleBookmarks:
    """Send each bookmark twice."""

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        return await _watch(call, handler, self._change)

    @staticmethod
    async def _change(lines: LineStream) -> LineStream:
        async with aclosing(lines):
            async for line in lines:
                yield line
                if _is_bookmark(line):
                    yield line


@dataclass(frozen=True, slots=True)
class LateBookmarks:
    """Send each bookmark after the event that follows it, with its older resource version."""

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        return await _watch(call, handler, self._change)

    @staticmethod
    async def _change(lines: LineStream) -> LineStream:
        held: list[bytes] = []
        async with aclosing(lines):
            async for line in lines:
                # Clients wait for the end of the initial events: delaying it would block them without further events.
                if _is_bookmark(line) and b"initial-events-end" not in line:
                    held.append(line)
                    continue
                yield line
                while held:
                    yield held.pop(0)


def _is_bookmark(line: bytes) -> bool:
    return line.startswith(b'{"type":"BOOKMARK"')


@dataclass(frozen=True, slots=True)
class StaleList:
    """Lists with ``resourceVersion=0`` return the objects of `behind` revisions ago.

    If that revision is compacted, they return the current objects.
    """

    behind: int = 10

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        query = call.http.query
        if call.info.verb != "list" or query.get("resourceVersion") != "0":
            return await handler(call)
        fresh, old = call.http, max(scope.revision - self.behind, 1)
        preserved = [(k, v) for k in ("labelSelector", "fieldSelector", "timeoutSeconds") for v in query.all(k)[:1]]
        parameters = [*preserved, ("resourceVersion", str(old)), ("resourceVersionMatch", "Exact")]
        call.http = replace(fresh, query=Query(urlencode(parameters)))
        try:
            return await handler(call)
        except GoneError:
            call.http = fresh
            return await handler(call)
