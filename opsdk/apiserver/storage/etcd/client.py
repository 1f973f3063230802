"""Requests to the members of an etcd cluster: connections, deadlines, failover, authentication."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.closing import Closing
from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure, classify
from opsdk.apiserver.storage.etcd.options import EtcdOptions, target_of
from opsdk.apiserver.storage.etcd.stream import GrpcStream
from opsdk.base.extras import RequiredExtra
from opsdk.base.limits import LIMITS, MIB
from opsdk.errors import ConfigError

with RequiredExtra("etcd", "the storage on etcd"):
    import grpc.aio
    from google.protobuf.message import DecodeError

log = logging.getLogger(__name__)

_INT32_MAX = 2**31 - 1
_BACKOFF = Backoff(base=0.05, factor=2, cap=1.0, jitter=0.5)
_MEMBER_FAILED = frozenset({EtcdFailure.UNREACHABLE, EtcdFailure.NOT_DONE, EtcdFailure.UNKNOWN})
"""Failures after which another member is tried."""


class Rpc(enum.Enum):
    """A gRPC method: its path, request class and response class."""

    RANGE = ("/etcdserverpb.KV/Range", messages.RangeRequest, messages.RangeResponse)
    TXN = ("/etcdserverpb.KV/Txn", messages.TxnRequest, messages.TxnResponse)
    COMPACT = ("/etcdserverpb.KV/Compact", messages.CompactionRequest, messages.CompactionResponse)
    WATCH = ("/etcdserverpb.Watch/Watch", messages.WatchRequest, messages.WatchResponse)
    STATUS = ("/etcdserverpb.Maintenance/Status", messages.StatusRequest, messages.StatusResponse)
    AUTHENTICATE = ("/etcdserverpb.Auth/Authenticate", messages.AuthenticateRequest, messages.AuthenticateResponse)


class Repeat(enum.Enum):
    """Whether a request is retried after its response was lost."""

    READ = "read"
    """A read: it is retried."""
    COMPARED = "compared"
    """It compares a revision, which never repeats, so it takes effect at most once: it is retried."""
    NEVER = "never"
    """It could take effect twice: it is not retried, and the caller resolves the outcome."""


class EtcdClient(Closing):
    """Sends requests to one member until it fails, then to the next member.

    The connections are bound to the running event loop and open with the first request.
    """

    def __init__(self, options: EtcdOptions) -> None:
        self._options = options
        self._channels: dict[str, Any] = {}
        self._streams: dict[str, set[GrpcStream]] = {}
        self._credentials: Any = None
        self._current = 0
        self._token = ""
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"at {self.endpoint}"
        return f"<EtcdClient of {len(self._options.endpoints)} endpoints, {state}>"

    @property
    def endpoint(self) -> str:
        """The member for the next request."""
        return self._options.endpoints[self._current]

    async def request(self, rpc: Rpc, message: Any, repeat: Repeat = Repeat.READ) -> tuple[Any, bool]:
        """Return the response, and whether an earlier attempt may have taken effect too.

        Raises `EtcdError`. Its `done` reports whether an attempt of a write may have taken effect.
        """
        deadline = monotonic() + self._options.retry_timeout
        backoff = _BACKOFF.start()
        uncertain = renewed = False
        while True:
            try:
                return await self._attempt(rpc, message, deadline), uncertain
            except EtcdError as error:
                if error.failure is EtcdFailure.TOKEN and not renewed:
                    renewed = True
                    continue
                lost = error.failure in (EtcdFailure.UNKNOWN, EtcdFailure.INVALID) and repeat is not Repeat.READ
                uncertain = uncertain or lost
                delay = backoff.next(monotonic())
                late = monotonic() + delay >= deadline
                if late or error.failure not in _MEMBER_FAILED or (lost and repeat is Repeat.NEVER):
                    error.done = uncertain
                    raise
            await asyncio.sleep(delay)

    async def _attempt(self, rpc: Rpc, message: Any, deadline: float) -> Any:
        endpoint = self.endpoint
        seconds = max(min(self._options.request_timeout, deadline - monotonic()), 0.001)
        try:
            metadata = [] if rpc is Rpc.AUTHENTICATE else await self._metadata(deadline)
            path, request, response = rpc.value
            method = self._channel(endpoint).unary_unary(path, request_serializer=request.SerializeToString)
            return _decode(response, await method(message, timeout=seconds, metadata=metadata), endpoint)
        except grpc.aio.AioRpcError as error:
            raise self._failed(endpoint, error) from error

    def _failed(self, endpoint: str, error: Any) -> EtcdError:
        code, details = error.code().name, error.details() or ""
        failure = classify(code, details)
        if failure is EtcdFailure.TOKEN:
            self._token = ""
        if code == "DEADLINE_EXCEEDED":
            # The watches of an unresponsive member are silent, so they are abandoned too.
            for stream in tuple(self._streams.get(endpoint, ())):
                stream.abandon()
        if failure in _MEMBER_FAILED and endpoint == self.endpoint:
            self._current = (self._current + 1) % len(self._options.endpoints)
            log.debug("etcd member %s failed (%s); the next is %s", endpoint, details, self.endpoint)
        return EtcdError(failure, f"{endpoint}: {details or code}")

    async def _metadata(self, deadline: float) -> Sequence[tuple[str, str]]:
        if not self._options.user:
            return ()
        if not self._token:
            login = messages.AuthenticateRequest(name=self._options.user, password=self._options.password)
            self._token = (await self._attempt(Rpc.AUTHENTICATE, login, deadline)).token
        return (("token", self._token),)

    @asynccontextmanager
    async def watch(self, request: Any) -> AsyncGenerator[AsyncGenerator[Any, None], None]:
        """Open a watch at the current member. Yield its responses, beginning with the one that confirms the watch.

        Raises `EtcdError` if it ends with an error; leaving the block cancels the watch.
        """
        endpoint = self.endpoint
        deadline = monotonic() + self._options.request_timeout
        # etcd reports an expired token of a watch as a missing permission.
        self._token = ""
        # A member without a leader ends the watch then, instead of staying silent.
        metadata = [("hasleader", "true"), *await self._metadata(deadline)]
        path, message, response = Rpc.WATCH.value
        method = self._channel(endpoint).stream_stream(path, request_serializer=message.SerializeToString)
        streams = self._streams.setdefault(endpoint, set())
        async with GrpcStream(method, metadata) as stream:
            streams.add(stream)
            responses = self._responses(endpoint, stream, message(create_request=request), response)
            try:
                async with aclosing(responses):
                    yield responses
            finally:
                streams.discard(stream)

    async def _responses(self, endpoint: str, stream: GrpcStream, create: Any, kind: Any) -> AsyncGenerator[Any, None]:
        """Yield the responses of a watch's stream. Raises `EtcdError` when the server or the client ends it."""
        call = stream.call
        try:
            async with asyncio.timeout(self._options.request_timeout):
                await call.write(create)
                raw = await call.read()
            while raw is not grpc.aio.EOF:
                yield _decode(kind, raw, endpoint)
                raw = await call.read()
        except TimeoutError as error:
            raise self._lost(endpoint, "the watch did not begin in time") from error
        except grpc.aio.AioRpcError as error:
            raise self._failed(endpoint, error) from error
        except asyncio.InvalidStateError as error:
            # A write on an ended call does not report the reason; the call does.
            code, details = await call.code(), await call.details()
            raise self._failed(endpoint, grpc.aio.AioRpcError(code, None, None, details=details)) from error
        except asyncio.CancelledError as error:
            if not stream.read_cancelled():
                raise
            raise self._lost(endpoint, "the member does not answer") from error
        raise self._lost(endpoint, "the member ended the watch")

    def _lost(self, endpoint: str, text: str) -> EtcdError:
        if endpoint == self.endpoint:
            self._current = (self._current + 1) % len(self._options.endpoints)
        return EtcdError(EtcdFailure.UNKNOWN, f"{endpoint}: {text}")

    def _channel(self, endpoint: str) -> Any:
        if self._closed:
            raise RuntimeError("the client of etcd is closed and sends no requests")
        channel = self._channels.get(endpoint)
        if channel is None:
            settings = self._settings()
            target, secure = target_of(endpoint)
            if secure:
                self._credentials = self._credentials or _credentials(self._options)
                channel = grpc.aio.secure_channel(target, self._credentials, options=settings)
            else:
                channel = grpc.aio.insecure_channel(target, options=settings)
            self._channels[endpoint] = channel
        return channel

    def _most_response_bytes(self) -> int:
        """Return the size of a page of the largest objects, or 2 GiB, which is gRPC's limit."""
        return min(self._options.page_limit * LIMITS.body_bytes + MIB, _INT32_MAX)

    def _settings(self) -> Sequence[tuple[str, int]]:
        return (
            ("grpc.max_receive_message_length", self._most_response_bytes()),
            ("grpc.enable_retries", 0),
            ("grpc.keepalive_time_ms", int(self._options.keepalive_time * 1000)),
            ("grpc.keepalive_timeout_ms", int(self._options.keepalive_timeout * 1000)),
            ("grpc.initial_reconnect_backoff_ms", 100),
            # The smallest backoff also limits a connection attempt.
            ("grpc.min_reconnect_backoff_ms", 1000),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # Two storages in one process must not share a connection that one of them closes.
            ("grpc.use_local_subchannel_pool", 1),
        )

    async def aclose(self) -> None:
        """Close the connections and cancel running requests. Idempotent."""
        self._closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()


def _decode(kind: Any, raw: bytes, endpoint: str) -> Any:
    """Decode a response. grpcio would return None for one that is malformed. Raises `EtcdError`."""
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise EtcdError(EtcdFailure.INVALID, f"{endpoint}: malformed {kind.DESCRIPTOR.name}: {error}") from error


def _credentials(options: EtcdOptions) -> Any:
    return grpc.ssl_channel_credentials(
        root_certificates=_read(options.ca_file),
        private_key=_read(options.key_file),
        certificate_chain=_read(options.cert_file),
    )


def _read(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path} for the connection to etcd: {error}") from error
