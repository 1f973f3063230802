"""`WebhookClient`: posts JSON to webhooks, over TLS or in process.

Upstream: k8s.io/apiserver/pkg/util/webhook/client.go (v1.36).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping

import msgspec

from opsdk.aio.closing import Closing
from opsdk.apimachinery.serializer import documents
from opsdk.apimachinery.serializer.json_errors import first_fault
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.apiserver.webhook_client.connection_pools import ConnectionPools, Endpoint
from opsdk.apiserver.webhook_client.endpoint import ClientConfigTarget
from opsdk.apiserver.webhook_client.go_errors import failure, media_fault, not_an_object, refusal, unreadable
from opsdk.apiserver.webhook_client.redirects import Redirect, RedirectError, first_hop, next_hop, retry_delay
from opsdk.errors import OpsdkError
from opsdk.http.asgi_types import App
from opsdk.http.client.request import ResponseStream
from opsdk.http.server.response import encode_json
from opsdk.structured_merge.value import JsonObject, JsonValue

MAX_ANSWER = 32 << 20
"""Largest response in bytes; a conversion of ten thousand objects has about this size."""
AGENT = "kube-apiserver-admission"
_MAX_YAML = 64 << 10
"""Largest YAML response in bytes, because parsing YAML is slow."""

Resolve = Callable[[str, str, int], tuple[str, int]]
"""Maps namespace, name and port of a Service to an address and its port. Raises `WebhookCallError`."""


class WebhookCallError(Exception):
    """The call failed; the message is Go's."""


def no_services(_: str, name: str, __: int) -> tuple[str, int]:
    """Raise `WebhookCallError`: a `Resolve` without any Service."""
    raise WebhookCallError(f'service "{name}" not found')


class _Response(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


class WebhookClient(Closing):
    """Calls webhooks over pooled connections. After `aclose`, calls fail.

    Args:
        apps: applications of this process by authority, e.g. ``127.0.0.1:9443`` or ``name.namespace.svc:443``;
            they are called without sockets.
        resolve: resolves a Service to an address.
    """

    def __init__(self, *, apps: Mapping[str, App] | None = None, resolve: Resolve = no_services) -> None:
        self.apps: dict[str, App] = dict(apps or {})
        self._resolve = resolve
        self._lines = ConnectionPools(self.apps)

    def __repr__(self) -> str:
        return f"<WebhookClient by {self._lines!r}>"

    async def post(self, target: ClientConfigTarget, tree: JsonObject, *, timeout: int) -> JsonObject:
        """Post an object and return the response object; `timeout` covers all attempts, in seconds."""
        hop = first_hop(target, timeout)
        try:
            async with asyncio.timeout(timeout):
                answer = await self._send_with_retries(hop, target, encode_json(tree))
        except TimeoutError:
            raise WebhookCallError(f'Post "{hop.url}": context deadline exceeded') from None
        except RedirectError as error:
            raise WebhookCallError(f'Post "{error.url}": {error}') from None
        if not 200 <= answer.status <= 206:
            raise WebhookCallError(refusal(answer.status, answer.header("content-type"), answer.body))
        kind = answer.header("content-type")
        if not answer.body:
            raise WebhookCallError(f"0-length response with status code: {answer.status} and content type: {kind}")
        if fault := media_fault(kind):
            raise WebhookCallError(f"Internal error occurred: {fault}")
        decoded = _parsed(answer.body)
        if decoded is None:
            return {}
        if not isinstance(decoded, dict):
            raise WebhookCallError(not_an_object(decoded))
        for key, value in decoded.items():
            if key in ("kind", "apiVersion") and value is not None and not isinstance(value, str):
                reason = (
                    f"json: cannot unmarshal {documents.json_kind(value)} into Go struct field .{key} of type string"
                )
                raise WebhookCallError(unreadable(reason))
        return decoded

    async def _send_with_retries(self, hop: Redirect, target: ClientConfigTarget, payload: bytes) -> _Response:
        """Follow redirects, and retry while the server sends ``Retry-After``."""
        tried = 0
        while True:
            place = hop
            answer = await self._send(place, target, payload)
            while (after := next_hop(place, answer.status, answer.header("location"))) is not None:
                place = after
                answer = await self._send(place, target, payload)
            wait = retry_delay(answer.status, answer.header("retry-after"), tried)
            if wait is None:
                return answer
            await asyncio.sleep(wait)
            tried += 1

    async def _send(self, hop: Redirect, target: ClientConfigTarget, payload: bytes) -> _Response:
        """Send a request to one address of a chain of redirects. Raises `RedirectError`."""
        headers = [("Host", hop.authority), ("Accept", "application/json, */*"), ("User-Agent", AGENT)]
        if hop.method == "GET":
            payload = b""
        else:
            headers.append(("Content-Type", "application/json"))
        try:
            if hop.service is None or hop.authority in self.apps:
                address, port = hop.host, hop.port
            else:
                address, port = self._resolve(*hop.service, hop.port)
            place = Endpoint(authority=hop.authority, host=hop.host, address=address, port=port, ca=target.ca)
        except WebhookCallError as error:
            raise RedirectError(hop.url, str(error)) from None
        try:
            exchange = await self._lines.exchange(place, hop.method, hop.target, headers, payload, retry_if_closed=True)
            return _Response(exchange.status, exchange.headers, await _read(exchange))
        except OpsdkError as error:
            raise RedirectError(hop.url, failure(error.__cause__ or error, place.joined, hop.host)) from error
        except WebhookCallError as error:
            raise RedirectError(hop.url, str(error)) from None

    async def aclose(self) -> None:
        """Cancel all calls and close all connections; idempotent."""
        await self._lines.aclose()


async def _read(exchange: ResponseStream) -> bytes:
    try:
        pieces, size = [], 0
        while piece := await exchange.read():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ANSWER:
                raise WebhookCallError(f"http: response body too large: limit is {MAX_ANSWER}")
        return b"".join(pieces)
    finally:
        await exchange.aclose()


def _parsed(raw: bytes) -> JsonValue:
    try:
        return json.loads(raw)
    except RecursionError:
        raise WebhookCallError("exceeded max depth") from None
    except ValueError as error:
        if raw.lstrip().startswith(b"{") or len(raw) > _MAX_YAML:
            raise WebhookCallError(unreadable(first_fault(raw) or str(error))) from None
    try:
        return parse_yaml(raw).tree
    except (documents.SyntaxProblemError, RecursionError) as error:
        raise WebhookCallError(f"error converting YAML to JSON: {error}") from None
