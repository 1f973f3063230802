"""`HookClient`: posts JSON to webhooks, over TLS or inside this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from opsdk.aio.closing import Closing
from opsdk.apiserver.endpoints import documents
from opsdk.apiserver.outgoing.lines import Lines, Place
from opsdk.apiserver.outgoing.target import Target, TargetError
from opsdk.apiserver.outgoing.words import failure, not_an_object, refusal
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import OpsdkError
from opsdk.web.response import encode_json
from opsdk.web.types import App
from opsdk.wire.connection import Exchange

MAX_ANSWER = 32 << 20
"""Bytes of an answer that are read; a conversion of ten thousand objects is about as large."""
_MAX_YAML = 64 << 10
"""Bytes of an answer that is no JSON and yet read: YAML takes long."""

Resolve = Callable[[str, str, int], tuple[str, int]]
"""From a Service's namespace, name and port to an address and its port; `CallError` says why there is none."""


class CallError(Exception):
    """A call that failed; the text is Go's."""


def no_services(_: str, name: str, __: int) -> tuple[str, int]:
    """A `Resolve` that knows none."""
    raise CallError(f'service "{name}" not found')


class HookClient(Closing):
    """Calls webhooks; keeps connections for the next call. Closed, it calls nobody.

    Args:
        apps: applications of this process by authority, such as ``127.0.0.1:9443`` or ``name.namespace.svc:443``:
            they are called without sockets.
        resolve: finds the addresses of Services.
    """

    def __init__(self, *, apps: Mapping[str, App] | None = None, resolve: Resolve = no_services) -> None:
        self.apps: dict[str, App] = dict(apps or {})
        self._resolve = resolve
        self._lines = Lines(self.apps)

    def __repr__(self) -> str:
        return f"<HookClient by {self._lines!r}>"

    async def post(self, target: Target, tree: Tree, *, timeout: int) -> Tree:  # noqa: ASYNC109 - it is sent along
        """The object that the webhook answers with; `timeout` is for all of it, in seconds."""
        url = target.url(timeout)
        try:
            async with asyncio.timeout(timeout):
                status, content_type, answer = await self._exchange(target, tree, timeout)
        except TimeoutError:
            raise CallError(f'Post "{url}": context deadline exceeded') from None
        except TargetError:
            raise
        except CallError as error:
            raise CallError(f'Post "{url}": {error}') from None
        if not 200 <= status <= 206:
            raise CallError(refusal(status, content_type, answer))
        return _object(status, content_type, answer)

    async def _exchange(self, target: Target, tree: Tree, timeout: int) -> tuple[int, str, bytes]:  # noqa: ASYNC109
        headers = (
            ("Host", target.authority),
            ("Accept", "application/json, */*"),
            ("Content-Type", "application/json"),
            ("User-Agent", "kube-apiserver-admission"),
        )
        address, port = self._address(target)
        place = Place(authority=target.authority, host=target.host, address=address, port=port, ca=target.ca)
        payload = encode_json(tree)
        try:
            exchange = await self._lines.exchange(place, "POST", target.target(timeout), headers, payload, again=True)
            return exchange.status, exchange.headers.get("content-type", ""), await _read(exchange)
        except OpsdkError as error:
            cause = error.__cause__ or error
            raise CallError(failure(cause, place.joined, target.host)) from error

    def _address(self, target: Target) -> tuple[str, int]:
        if target.service is None or target.authority in self.apps:
            return target.host, target.port
        return self._resolve(*target.service, target.port)

    async def aclose(self) -> None:
        """End every call and connection; idempotent."""
        await self._lines.aclose()


async def _read(exchange: Exchange) -> bytes:
    try:
        pieces, size = [], 0
        while piece := await exchange.read():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ANSWER:
                raise CallError(f"http: response body too large: limit is {MAX_ANSWER}")
        return b"".join(pieces)
    finally:
        await exchange.aclose()


def _object(status: int, content_type: str, raw: bytes) -> Tree:
    if not raw:
        raise CallError(f"0-length response with status code: {status} and content type: {content_type}")
    found = _parsed(raw)
    if not isinstance(found, dict):
        raise CallError(not_an_object(found))
    return found


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except RecursionError:
        raise CallError("exceeded max depth") from None
    except ValueError as error:
        if len(raw) > _MAX_YAML:
            raise CallError(f"couldn't get version/kind; json parse error: {error}") from None
    try:
        return documents.parse_yaml(raw).tree
    except (documents.SyntaxProblemError, RecursionError) as error:
        raise CallError(f"error converting YAML to JSON: {error}") from None
