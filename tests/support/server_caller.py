"""Calls into a server of this process, without any client library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Answer:
    """Status, headers and body."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.raw = b""

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Caller:
    """A user of a server."""

    def __init__(self, env: Environment, token: str | None = None) -> None:
        self._app = env.server.app
        self._token = env.config.token if token is None else token

    def _scope(self, method: str, url: str, headers: Mapping[str, str]) -> JsonObject:
        path, _, query = url.partition("?")
        credentials = f"Bearer {self._token}" if self._token else ""
        sent = {"authorization": credentials, "user-agent": "tests/1", **headers}
        return {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in sent.items() if v],
        }

    async def __call__(self, method: str, url: str, body: Any = None, **headers: str) -> Answer:
        """One request; `headers` are written with underscores."""
        answer = Answer()
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        named_headers = {k.replace("_", "-"): v for k, v in headers.items()}
        first = asyncio.Event()

        async def receive() -> JsonObject:
            if first.is_set():
                await asyncio.Event().wait()
            first.set()
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: JsonObject) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                answer.raw += message.get("body", b"")

        await self._app(self._scope(method, url, named_headers), receive, send)
        return answer

    @asynccontextmanager
    async def watch(self, url: str, **headers: str) -> AsyncIterator[asyncio.Queue[Any]]:
        """The events of a watch; None at its end."""
        events: asyncio.Queue[Any] = asyncio.Queue()
        gone, started = asyncio.Event(), asyncio.Event()
        is_requested = False

        async def receive() -> JsonObject:
            nonlocal is_requested
            if is_requested:
                await gone.wait()
                return {"type": "http.disconnect"}
            is_requested = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: JsonObject) -> None:
            started.set()
            for line in message.get("body", b"").splitlines():
                events.put_nowait(json.loads(line))
            if message["type"] == "http.response.body" and not message.get("more_body"):
                events.put_nowait(None)

        named_headers = {k.replace("_", "-"): v for k, v in headers.items()}
        task = asyncio.ensure_future(self._app(self._scope("GET", url, named_headers), receive, send))
        await started.wait()
        try:
            yield events
        finally:
            gone.set()
            await task
