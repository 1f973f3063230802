"""HTTP transport of one API server: credentials, retries, timeouts, client-side throttling.

Requests use the connection pool directly. `opsdk.rest.httpx_client` lets users call the same server with httpx.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, TypeVar, cast

from opsdk.aio.clock import loop_time, monotonic, utc_now
from opsdk.aio.closing import Closing
from opsdk.aio.fence import FENCE
from opsdk.aio.idle_timeout import IdleTimeout
from opsdk.aio.shared_timeout import LimitedWait, SharedTimeout
from opsdk.aio.token_bucket import TokenBucket
from opsdk.errors import ApiError, DeadlineError, OpsdkError, ResponseLimitError, TlsError, TransportError
from opsdk.http.client.decompression import decoder_for
from opsdk.http.client.errors import TRANSPORT_ERRORS, translate
from opsdk.http.client.in_process import AsgiBackend
from opsdk.http.client.pool import ConnectionExchange, ConnectionPool
from opsdk.http.client.request import (
    CONNECT,
    SWITCHED,
    Check,
    ConnectionBackend,
    MessageStream,
    ResponseStream,
    merge_headers,
)
from opsdk.http.client.upgrade import UpgradeConnection
from opsdk.recording.boundary import BOUNDARY
from opsdk.rest.config import RestConfig
from opsdk.rest.credentials import credentials_for
from opsdk.rest.dial import Dialer
from opsdk.rest.proxy import proxy_for
from opsdk.rest.request import RestRequest
from opsdk.rest.response import NO_WEBSOCKET, RestResponse, raise_for_status, websocket_error
from opsdk.rest.response_budget import ResponseBudget
from opsdk.rest.retry import retry_delay
from opsdk.rest.tls import TlsContexts
from opsdk.telemetry.records import Hooks, Requested, RequestStarted, TelemetryHook
from opsdk.telemetry.request_log import log_request, logs_requests

_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

E = TypeVar("E", bound=OpsdkError)
R = TypeVar("R", bound=RestResponse | ResponseStream)
ReadResponse = Callable[[RestRequest, ResponseStream], Awaitable[R]]
"""Reads as much of a response as an attempt needs: all of it, only a failure's body, or nothing."""


class Stream:
    """A response whose body is still arriving. Iterate over it to get the bytes."""

    def __init__(self, exchange: ResponseStream, request: RestRequest, idle: IdleTimeout) -> None:
        self.status = exchange.status
        self.headers = exchange.headers
        self._exchange = exchange
        self._request = request
        self._idle = idle
        self._decoder = decoder_for(exchange.headers)
        self._slices: Iterator[bytes] = iter(())

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            while not (piece := next(self._slices, b"")):
                with self._idle:
                    data = await self._exchange.read()
                if not data:
                    self._decoder.finish()
                    raise StopAsyncIteration
                self._slices = iter(self._decoder.feed(data))
        except TransportError as error:
            _with_request(self._request, error)
            raise
        except TimeoutError as error:
            late = DeadlineError(f"no data received within {self._idle.seconds:g} s")
            raise _with_request(self._request, late) from error
        except TRANSPORT_ERRORS as error:
            raise _with_request(self._request, translate(error, sent=True, where="")) from error
        return piece

    def __repr__(self) -> str:
        return f"<Stream {self._request.description}: {self.status}>"


class Transport(Closing):
    """All HTTP traffic to one API server.

    >>> async def main(app):
    ...     async with Transport(RestConfig(app=app)) as transport:
    ...         return (await transport.send(RestRequest("GET", "/version"))).status

    A write of a task that needs leadership is refused with `LeaderElectionLostError` when this replica no longer leads
    (see `opsdk.aio.fence`). The check comes last: after throttling, retries, credentials and connecting, and again
    right before each send of the socket, below TLS.

    Cancelling a call closes its connection and leaves no task behind. Each attempt is logged at DEBUG on
    ``opsdk.requests``.

    Args:
        config: address and credentials.
        hook: receives a `Requested` record for each attempt, retries and cancelled ones included; may add headers.
    """

    def __init__(self, config: RestConfig, *, hook: TelemetryHook | None = None) -> None:
        self.config = config
        self._hook = Hooks([hook] if hook is not None else [])  # logs exceptions of the hook
        self.endpoint = config.endpoint
        self._credentials = credentials_for(config, fetch)
        self._bucket = TokenBucket(config.qps, config.burst) if config.qps is not None else None
        self._timeouts = SharedTimeout()
        limits = config.limits
        self._least_limit = min(limits.error_bytes, limits.object_bytes, limits.list_bytes)
        self._tls: TlsContexts | None = None
        self._prefix = self.endpoint.base_path
        self._authority = self.endpoint.authority
        self._headers: tuple[tuple[str, str], ...] = (
            ("Host", self._authority),
            ("User-Agent", config.user_agent),
            *(() if config.disable_compression or config.app is not None else (("Accept-Encoding", "gzip"),)),
            *config.impersonate.headers(),
        )
        self._backend = self._make_backend()
        if (boundary := BOUNDARY.get()) is not None:
            server = f"{self.endpoint.host}:{self.endpoint.port}{self.endpoint.base_path}"
            self._backend = boundary.around(self._backend, server)

    def _make_backend(self) -> ConnectionBackend:
        """Return the application in this process, or a connection pool with TLS and proxy."""
        if self.config.app is not None:
            return AsgiBackend(self.config.app, self.endpoint, check_factory=_fence_check)
        tls = TlsContexts(
            self.config,
            on_change=lambda: self._backend.drain(),  # noqa: PLW0108 - the backend does not exist yet
        )
        proxy = proxy_for(self.endpoint, proxy_url=self.config.proxy_url, env=os.environ)
        dialer = Dialer(self.endpoint, tls, proxy=proxy)
        if self.endpoint.scheme == "https":
            self._tls = tls
        if dialer.absolute_targets:
            self._prefix = str(self.endpoint)
            self._headers += tuple(dialer.extra_headers)
        dial_upgrade = partial(dialer.dial_as, UpgradeConnection)
        return ConnectionPool(dialer.dial, check_factory=_fence_check, dial_upgrade=dial_upgrade)

    # -- calls
    async def send(self, request: RestRequest, *, timeout: float | None = None, retry: bool = True) -> RestResponse:
        """Return the response, whatever its status (see `opsdk.rest.response.raise_for_status`).

        Args:
            request: the request.
            timeout: seconds for the call including retries; None uses the configuration's, 0 waits without limit.
            retry: repeat requests that were certainly not processed (see `opsdk.rest.retry`).

        Raises:
            DeadlineError: the timeout passed.
            TransportError: no response arrived.
        """
        seconds = self.config.timeout if timeout is None else timeout
        if not seconds:
            return await self._with_retries(request, self._read_whole, retry=retry, until=None)
        try:
            with LimitedWait(self._timeouts, seconds) as wait:
                return await self._with_retries(request, self._read_whole, retry=retry, until=wait.until)
        except TimeoutError as error:
            raise _with_request(request, DeadlineError(f"no response within {seconds:g} s")) from error

    @asynccontextmanager
    async def stream(
        self,
        request: RestRequest,
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        retry: bool = True,
    ) -> AsyncIterator[Stream]:
        """Open a response whose body is read as it arrives. Leaving the block closes the connection.

        Args:
            request: the request.
            timeout: seconds until the head arrives, including retries; None waits without limit.
            idle_timeout: seconds without a byte before the stream raises `DeadlineError`; None for no limit.
            retry: repeat requests that were certainly not processed.

        Raises:
            ApiError: the status is not 2xx.
            TransportError: no response arrived.
        """
        response = await self._open(request, self._read_failure, timeout=timeout, retry=retry)
        idle = IdleTimeout(idle_timeout)
        try:
            yield Stream(response, request, idle)
        finally:
            idle.close()
            await response.aclose()

    @asynccontextmanager
    async def connect(
        self,
        request: RestRequest,
        *,
        timeout: float | None = None,
    ) -> AsyncIterator[MessageStream]:
        """Open a WebSocket. Leaving the block closes the connection; after an exception at once.

        Args:
            request: its method is ``CONNECT``: it counts as a write, so that a fence holds it, and it is not repeated
                after a lost connection. ``Sec-WebSocket-Protocol`` names the subprotocols.
            timeout: seconds until the WebSocket is open, including retries; None waits without limit.

        Raises:
            ApiError: the server refuses the request.
            TransportError: no response arrived, or a proxy before the server lets no WebSocket pass.
        """
        try:
            response = cast("MessageStream", await self._open(request, self._read_refusal, timeout=timeout, retry=True))
        except ApiError as error:
            if (refused := websocket_error(error)) is not None:
                raise _with_request(request, refused) from error
            raise
        try:
            yield response
        except BaseException as error:
            response.abort()
            if isinstance(error, TransportError):
                _with_request(request, error)
            raise
        finally:
            await response.aclose()

    async def _open(
        self,
        request: RestRequest,
        read: ReadResponse[RestResponse | ResponseStream],
        *,
        timeout: float | None,
        retry: bool,
    ) -> ResponseStream:
        """Return the response whose body is still arriving. Raises the error of one that was read."""
        try:
            async with asyncio.timeout(timeout or None) as limit:
                response = await self._with_retries(request, read, retry=retry, until=limit.when())
        except TimeoutError as error:
            raise _with_request(request, DeadlineError(f"no response within {timeout or 0:g} s")) from error
        if isinstance(response, RestResponse):
            raise_for_status(response, request, now=utc_now())
            raise _with_request(request, TransportError(f"{NO_WEBSOCKET}: HTTP {response.status}"))
        return response

    # -- one attempt after the other
    async def _with_retries(
        self, request: RestRequest, read: ReadResponse[R], *, retry: bool, until: float | None
    ) -> R:
        """Make attempts as the retry rules say. Return the last response, or raise the last error."""
        repeats, renewed, used = count(), False, [0]
        for number in count():
            throttled = await self._throttle(request) if self._bucket is not None else 0.0
            try:
                attempt = self._traced_attempt if self._hook.follows_requests else self._attempt
                response = await attempt(request, read, number, used, throttled=throttled)
            except TransportError as error:
                if isinstance(error, TlsError) and not renewed and self._tls and self._tls.refresh(force=True):
                    renewed = True
                    continue
                delay = retry_delay(request, error, next(repeats), now=utc_now()) if retry else None
                if delay is None or _is_late(delay, until):
                    raise
            else:
                renews = response.status == 401 and not renewed and request.is_repeatable
                if renews and self._credentials.invalidate(used[0]):
                    renewed = True
                    continue
                if 200 <= response.status < 300 or not isinstance(response, RestResponse):
                    return response
                delay = retry_delay(request, response, next(repeats), now=utc_now()) if retry else None
                if delay is None or _is_late(delay, until):
                    return response
            await asyncio.sleep(delay)
        raise AssertionError  # `count` does not end

    async def _traced_attempt(
        self, request: RestRequest, read: ReadResponse[R], number: int, used: list[int], *, throttled: float
    ) -> R:
        """Make one attempt in the block of the hooks that trace requests; they add headers."""
        started = RequestStarted(request=request.info, method=request.method, host=self._authority)
        with self._hook.request(started) as headers:
            return await self._attempt(request, read, number, used, throttled=throttled, headers=headers)

    async def _attempt(
        self,
        request: RestRequest,
        read: ReadResponse[R],
        number: int,
        used: list[int],
        *,
        throttled: float,
        headers: Mapping[str, str] | None = None,
    ) -> R:
        """Make one attempt, and report it to log and hooks. See `exchange` for `used` and `headers`."""
        is_reported = self._hook.hooks or logs_requests()
        clock = loop_time()
        started = clock()
        response: R | None = None
        error: BaseException | None = None
        try:
            response = await read(request, await self.exchange(request, headers, used))
        except TransportError as caught:
            error = _with_request(request, caught)
            raise
        except asyncio.CancelledError as caught:
            # By a timeout, or by the caller.
            error = caught
            raise
        else:
            return response
        finally:
            if is_reported and (response is not None or error is not None):
                seconds = clock() - started
                self._report_attempt(request, response, error, number=number, throttled=throttled, seconds=seconds)

    async def _read_whole(self, request: RestRequest, exchange: ResponseStream) -> RestResponse:
        # Nearly all responses arrive with their head: these need no decoder and no budget.
        if isinstance(exchange, ConnectionExchange) and "content-encoding" not in exchange.headers:
            body = exchange.take_whole(self._least_limit)
            if body is not None:
                return RestResponse(exchange.status, exchange.headers, body)
        try:
            decoder = decoder_for(exchange.headers)
            budget = ResponseBudget.of(request, exchange.status, self.config.limits)
            pieces: list[bytes] = []
            try:
                while data := await exchange.read():
                    pieces += map(budget.take, decoder.feed(data))
                    if budget.full:
                        break
                else:
                    decoder.finish()
            except ResponseLimitError as error:
                pieces.clear()  # the error outlives the call, and its traceback has this frame
                raise _with_request(request, error) from None
            except TRANSPORT_ERRORS as error:
                raise _with_request(request, translate(error, sent=True, where="")) from error
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            return RestResponse(exchange.status, exchange.headers, body)
        finally:
            await exchange.aclose()

    async def _read_failure(self, request: RestRequest, exchange: ResponseStream) -> RestResponse | ResponseStream:
        """Read the body unless the status is 2xx: a failure's body has its reason, and decides about a retry."""
        return exchange if 200 <= exchange.status < 300 else await self._read_whole(request, exchange)

    async def _read_refusal(self, request: RestRequest, exchange: ResponseStream) -> RestResponse | ResponseStream:
        """Read the body unless the server has opened the WebSocket."""
        return exchange if exchange.status == SWITCHED else await self._read_whole(request, exchange)

    def _report_attempt(
        self,
        request: RestRequest,
        response: RestResponse | ResponseStream | None,
        error: BaseException | None,
        *,
        number: int,
        throttled: float,
        seconds: float,
    ) -> None:
        """Pass the attempt to log and hooks."""
        body = request.body
        record = Requested(
            method=request.method,
            host=self._authority,
            status=0 if response is None else response.status,
            seconds=seconds,
            request=request.info,
            throttled=None if self._bucket is None or request.verb == "watch" else throttled,
            attempt=number,
            sent_bytes=len(body) if isinstance(body, bytes) else body.sent,
            received_bytes=len(response.body) if isinstance(response, RestResponse) else None,
            error=error,
        )
        if logs_requests():
            log_request(record)
        self._hook.record(record)

    # Not async: the backend has the coroutine.
    def exchange(
        self, request: RestRequest, headers: Mapping[str, str] | None = None, used: list[int] | None = None
    ) -> Coroutine[Any, Any, ResponseStream]:
        """Make one exchange with credentials, but without retry, timeout or throttling. The caller closes it.

        For adapters; other callers use `send` or `stream`. `headers` are added to those of the request. `used` gets
        the generation of the credentials.
        """
        credentials = self._credentials.current()
        if credentials is None:
            return self._exchange_with_new(request, headers, used)
        return self._exchange_with(credentials, request, headers, used)

    async def _exchange_with_new(
        self, request: RestRequest, headers: Mapping[str, str] | None, used: list[int] | None
    ) -> ResponseStream:
        credentials = await self._credentials.headers()
        return await self._exchange_with(credentials, request, headers, used)

    def _exchange_with(
        self,
        credentials: Mapping[str, str],
        request: RestRequest,
        headers: Mapping[str, str] | None,
        used: list[int] | None,
    ) -> Coroutine[Any, Any, ResponseStream]:
        if used is not None:
            used[0] = self._credentials.generation
        if self._tls is not None:
            self._tls.use(self._credentials.client_cert)
        own_headers = {**headers, **request.headers} if headers else request.headers
        merged = merge_headers(self._headers, tuple(credentials.items()), tuple(own_headers.items()))
        target = self._prefix + request.target
        if request.method == CONNECT:
            return self._backend.connect(target, merged)
        return self._backend.exchange(request.method, target, merged, request.body)

    async def _throttle(self, request: RestRequest) -> float:
        """Wait for the client-side limit, and return the seconds waited. Watches are exempt."""
        if self._bucket is None or request.verb == "watch":
            return 0.0
        wait = self._bucket.reserve(monotonic())
        if wait <= 0:
            return 0.0
        try:
            await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self._bucket.cancel()
            raise
        return wait

    # -- closing
    async def aclose(self) -> None:
        """Close every connection and end every request. Idempotent."""
        self._timeouts.close()
        await self._backend.aclose()

    def __repr__(self) -> str:
        return f"<Transport to {self.endpoint}: {self._backend!r}>"


async def fetch(config: RestConfig, request: RestRequest) -> RestResponse:
    """Send one request outside of any recording: see `opsdk.rest.oidc.Fetch`."""
    outer = BOUNDARY.set(None)
    try:
        transport = Transport(config)
    finally:
        BOUNDARY.reset(outer)
    async with transport:
        return await transport.send(request, retry=False)


def _with_request(request: RestRequest, error: E) -> E:
    """Return the error with its request."""
    if error.request is None:
        error.request = request.info
    return error


def _is_late(delay: float, until: float | None) -> bool:
    """Whether a wait of `delay` seconds ends after the timeout."""
    return until is not None and monotonic() + delay >= until


def _fence_check(method: str, target: str) -> Check | None:
    """Return the check of the running task's fence for a write."""
    fence = FENCE.get()
    if fence is None or method.upper() in _READ_METHODS:
        return None
    return partial(fence.check, f"{method} {target.partition('?')[0]}")
