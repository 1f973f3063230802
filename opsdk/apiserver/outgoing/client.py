"""`HookClient`: posts JSON to webhooks, over TLS or inside this process."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from opsdk.aio.closing import Closing
from opsdk.apiserver.endpoints import documents
from opsdk.apiserver.outgoing.target import Target, TargetError
from opsdk.apiserver.outgoing.words import failure, not_an_object, refusal
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import ConnectionLostError, OpsdkError
from opsdk.web.response import encode_json
from opsdk.web.types import App
from opsdk.wire.asgi import AsgiBackend
from opsdk.wire.connection import Backend, Connection, Exchange, Pool, connect

MAX_ANSWER = 32 << 20
"""Bytes of an answer that are read; a conversion of ten thousand objects is about as large."""
_MAX_POOLS = 64
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
        self._contexts: dict[bytes, ssl.SSLContext] = {}
        self._backends: OrderedDict[tuple[str, int, str, bytes], Pool] = OrderedDict()
        self._local: dict[str, tuple[App, AsgiBackend]] = {}

    def __repr__(self) -> str:
        return f"<HookClient with {len(self._backends)} pools>"

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
        backend = self._backend(target, address, port)
        payload = encode_json(tree)
        # A kept connection may be closed by the other side just as it is used again: that is no failure.
        kept = isinstance(backend, Pool) and backend.idle > 0
        try:
            try:
                exchange = await backend.exchange("POST", target.target(timeout), headers, payload)
            except ConnectionLostError:
                if not kept:
                    raise
                exchange = await backend.exchange("POST", target.target(timeout), headers, payload)
            return exchange.status, exchange.headers.get("content-type", ""), await _read(exchange)
        except OpsdkError as error:
            cause = error.__cause__ or error
            raise CallError(failure(cause, _joined(address, port), target.host)) from error

    def _address(self, target: Target) -> tuple[str, int]:
        if target.service is None or target.authority in self.apps:
            return target.host, target.port
        return self._resolve(*target.service, target.port)

    def _backend(self, target: Target, address: str, port: int) -> Backend:
        app = self.apps.get(target.authority)
        if app is not None:
            kept = self._local.get(target.authority)
            if kept is None or kept[0] is not app:
                kept = self._local[target.authority] = (app, AsgiBackend(app, _Origin(target.host, target.port)))
            return kept[1]
        key = (address, port, target.host, target.ca)
        pool = self._backends.get(key)
        if pool is None:
            context = self._context(target.ca)

            async def dial() -> Connection:
                return await _dial(address, port, target.host, context)

            pool = self._backends[key] = Pool(dial)
            if len(self._backends) > _MAX_POOLS:
                self._backends.popitem(last=False)[1].retire()
        self._backends.move_to_end(key)
        return pool

    def _context(self, ca: bytes) -> ssl.SSLContext:
        found = self._contexts.get(ca)
        if found is None:
            if len(self._contexts) >= _MAX_POOLS:
                self._contexts.clear()
            found = self._contexts[ca] = _trusting(ca)
        return found

    async def aclose(self) -> None:
        """End every call and connection; idempotent."""
        pools, self._backends = list(self._backends.values()), OrderedDict()
        apps, self._local = list(self._local.values()), {}
        for pool in pools:
            await pool.aclose()
        for _, backend in apps:
            await backend.aclose()


class _Origin:
    scheme = "https"

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port


def _trusting(ca: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if not ca:
        context.load_default_certs()
        return context
    # A bundle may hold the server's own certificate, whoever signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        raise TargetError("unable to load root certificates: unable to parse bytes as PEM block") from None
    return context


async def _dial(address: str, port: int, name: str, context: ssl.SSLContext) -> Connection:
    """The first address of a name that answers; the failure is that of the first."""
    found = await asyncio.get_running_loop().getaddrinfo(address, port, type=socket.SOCK_STREAM)
    first: OSError | None = None
    for *_, place in found:
        try:
            return await connect(str(place[0]), port, _joined(address, port), context, name)
        except ssl.SSLError:
            raise
        except OSError as error:
            first = first or error
    raise first or socket.gaierror(f"{address} has no address")


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


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
