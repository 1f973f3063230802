"""Subscriptions over WebSockets: one client, and how many a user may have.

Upstream: github.com/rancher/norman/pkg/subscribe/handler.go
Deviates: a client that reads slowly waits, and ends after a minute; Rancher has no limit of open subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine

import msgspec

from opsdk.errors import ConnectionLostError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import StreamResponse, UpgradeResponse
from opsdk.http.server.unread import UNREAD, HeldPart
from opsdk.http.server.websocket import WebSocket, accept_websocket, wants_websocket
from opsdk.norman.codes import ErrorCode
from opsdk.norman.errors import NormanError
from opsdk.norman.origin import check_origin
from opsdk.structured_merge.value import JsonObject

log = logging.getLogger(__name__)

MAX_SESSIONS = 50
"""Subscriptions of one user at a time: a page has one or two."""

SEND_SECONDS = 60.0
"""Seconds after which a subscription ends whose client does not read."""

MAX_WAITING = 1 << 20
"""Bytes that wait for a slow client. Above it, the session does not read its watches."""


def accept_subscription(
    request: HttpRequest, serve: Callable[[WebSocket], Awaitable[None]], *hosts: str
) -> UpgradeResponse:
    """Return the response that upgrades to a WebSocket. It closes when `serve` returns.

    Args:
        request: the handshake.
        serve: serves the client.
        hosts: see `check_origin`.

    Raises:
        NormanError: InvalidAction for another request; PermissionDenied for one of a page of another origin.
        ApiError: the handshake is not valid.
    """
    if not wants_websocket(request):
        reason = "subscribe needs a WebSocket: send Connection: Upgrade and Upgrade: websocket"
        raise ErrorCode.INVALID_ACTION.error(reason)
    check_origin(request, *hosts)
    return accept_websocket(request, [""], lambda socket, _: serve(socket))


class Session:
    """One client: the messages that wait for it, its pings, and the tasks of its watches.

    Args:
        send: sends a message, which is JSON; it waits while the client does not read.
        ping: sent when nothing else was.
        ping_seconds: between two pings. Both sides detect a broken connection by them.
        user: whose budget of unread bytes the messages count for.

    Attributes:
        waiting: bytes of messages that wait for the client.
    """

    def __init__(
        self,
        send: Callable[[str], Awaitable[None]],
        *,
        ping: JsonObject,
        ping_seconds: float,
        user: str = "",
    ) -> None:
        self._send = send
        self._user = user
        self._held: deque[HeldPart] = deque()
        self._ping_message = ping
        self._ping_seconds = ping_seconds
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self.waiting = 0
        self._sent = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._reader: asyncio.Task[None] | None = None

    async def run(
        self, receive: Callable[[], Awaitable[bytes | str | None]], *watches: Coroutine[None, None, None]
    ) -> bool:
        """Serve the client until `receive` returns None, it reads nothing, or `end`. All watches end with the session.

        Args:
            receive: returns the next message of the client, which is ignored; None at the end of the connection.
            watches: send the messages.

        Returns:
            Whether the connection is still there.
        """
        connected = True
        try:
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(self._write(), name="subscribe/write"),
                    group.create_task(self._ping(), name="subscribe/ping"),
                ]
                self._reader = group.create_task(self._read(receive), name="subscribe/read")
                for number, work in enumerate(watches):
                    background.append(group.create_task(work, name=f"subscribe/{number}"))
                await asyncio.wait([self._reader])
                for task in background:
                    task.cancel()
        except* ConnectionLostError as lost:
            log.debug("a subscription ended: %s", lost.exceptions[0])
            connected = False
        finally:
            while self._held:
                UNREAD.release(self._held.popleft())
        return connected

    def end(self) -> None:
        """End the session. Idempotent."""
        if self._reader is not None:
            self._reader.cancel()

    # -------------------------------------------------------------- messages
    async def put(self, message: JsonObject) -> None:
        """Append a message when there is room."""
        while not self._room.is_set():  # another task may have used the room
            await self._room.wait()
        self._append(message)

    def _append(self, message: JsonObject) -> None:
        raw = msgspec.json.encode(message)
        self._outgoing.put_nowait(raw)
        self._held.append(UNREAD.hold(self._user, raw))
        self.waiting += len(raw)
        if self.waiting > MAX_WAITING:
            self._room.clear()

    async def flush(self) -> None:
        """Wait until all messages are sent."""
        while self.waiting:
            self._sent.clear()
            await self._sent.wait()

    async def _read(self, receive: Callable[[], Awaitable[bytes | str | None]]) -> None:
        while await receive() is not None:
            pass

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(self._ping_seconds)
            if self._outgoing.empty():  # any message shows that the connection is alive
                self._append(self._ping_message)

    async def _write(self) -> None:
        """Send the messages. Raises `ConnectionLostError` at the end of the connection."""
        while True:
            raw = await self._outgoing.get()
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._send(raw.decode())
            except TimeoutError as error:
                raise ConnectionLostError(f"the client has read nothing for {SEND_SECONDS:.0f} s") from error
            UNREAD.release(self._held.popleft())
            self.waiting -= len(raw)
            self._sent.set()
            if self.waiting <= MAX_WAITING:
                self._room.set()

    def __repr__(self) -> str:
        return f"<Session with {self.waiting} bytes to send>"


class SessionLimit:
    """Counts the open subscriptions of each user.

    Args:
        per_user: most subscriptions of one user.
    """

    def __init__(self, per_user: int = MAX_SESSIONS) -> None:
        self._per_user = per_user
        self._open: Counter[str] = Counter()

    def count(self, response: StreamResponse | UpgradeResponse, user: str) -> None:
        """Count a subscription until its response ends. One that exceeds the limit is released.

        Args:
            response: the stream or the upgrade.
            user: a name, or the address of a client without one.

        Raises:
            NormanError: TooManyRequests, with status 429.
        """
        release, is_full = response.release, self._open[user] >= self._per_user
        if is_full:
            _release(release)
            text = f"{self._per_user} subscriptions are open: close one first"
            raise NormanError(text, status=429, code="TooManyRequests")
        self._open[user] += 1

        def end() -> None:
            self._open -= Counter({user: 1})  # drops a user without subscriptions
            _release(release)

        response.release = end

    def __repr__(self) -> str:
        return f"<SessionLimit: {self._open.total()} open>"


def _release(release: Callable[[], None] | None) -> None:
    if release is not None:
        release()
