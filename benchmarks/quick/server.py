"""Counted requests of the embedded server: from the bytes of a request to those of its response, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from benchmarks.objects import config_map, name_of
from benchmarks.quick.counting import Counts, Profiler, in_counted_task
from envtest import Environment
from opsdk.http.server.connection import ServerConnection
from opsdk.http.server.response import encode_json
from opsdk.http.server.service import Service

_PATH = "/api/v1/namespaces/default/configmaps"
_WATCHERS = 10
_WARM_UP = 10
"""Requests before the counting, which build decoders and schemas."""


class _Pipe(asyncio.Transport):
    """A transport that keeps what the server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written: asyncio.Queue[bytes] = asyncio.Queue()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Buffer without limit."""

    def is_closing(self) -> bool:
        """Return whether the server closed the connection; these requests give it no reason to."""
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep the bytes of one write."""
        self.written.put_nowait(bytes(data))


class Sender:
    """Sends requests on one connection of its own, as the administrator of `env`."""

    def __init__(self, env: Environment) -> None:
        self._pipe = _Pipe()
        self._connection = ServerConnection(Service(env.server.app))
        self._connection.connection_made(self._pipe)
        self._fixed = (
            "HTTP/1.1\r\nhost: bench\r\naccept: application/json\r\nuser-agent: bench/1\r\n"
            f"authorization: Bearer {env.config.token}\r\ncontent-type: application/json\r\ncontent-length: "
        )

    def request(self, method: str, target: str, body: object = None) -> bytes:
        """Return the bytes of a request."""
        raw = b"" if body is None else encode_json(body)
        return f"{method} {target} {self._fixed}{len(raw)}\r\n\r\n".encode() + raw

    async def send(self, request: bytes) -> bytes:
        """Send a request; return the server's next write: a whole response, or the head of a stream."""
        self._connection.data_received(request)
        return await self._pipe.written.get()

    async def read(self) -> bytes:
        """Return the server's next write."""
        return await self._pipe.written.get()

    def close(self) -> None:
        """Tell the server that the client has gone."""
        self._connection.connection_lost(None)


Requests = Callable[[Sender, int], bytes]
"""Makes the bytes of a request with this number."""


async def _counted(env: Environment, count: int, requests: Requests, watchers: int = 0) -> Counts:
    """Count the server's calls for each request, and for its event to `watchers`."""
    profiler = Profiler()

    async def work() -> Counts:
        sender, streams = Sender(env), [Sender(env) for _ in range(watchers)]
        sent = [requests(sender, number) for number in range(_WARM_UP + count)]
        for stream in streams:
            query = f"watch=true&resourceVersion={env.plane.storage.current_rv}"
            head = await stream.send(stream.request("GET", f"{_PATH}?{query}"))
            assert head.startswith(b"HTTP/1.1 200"), head
        for number, request in enumerate(sent):
            if number == _WARM_UP:
                profiler.start()
            response = await sender.send(request)
            assert response[9:11] == b"20", response
            for stream in streams:
                await stream.read()
        counts = profiler.stop(count)
        for connection in (sender, *streams):
            connection.close()
        await asyncio.sleep(0)
        return counts

    return await in_counted_task(work)


async def _create_all(env: Environment, count: int) -> None:
    sender = Sender(env)
    for number in range(_WARM_UP + count):
        await sender.send(sender.request("POST", _PATH, config_map("default", number)))
    sender.close()


async def create(env: Environment, count: int) -> Counts:
    """Create objects."""
    return await _counted(env, count, lambda s, n: s.request("POST", _PATH, config_map("default", n)))


async def get(env: Environment, count: int) -> Counts:
    """Read objects."""
    await _create_all(env, count)
    return await _counted(env, count, lambda s, n: s.request("GET", f"{_PATH}/{name_of(n)}"))


def _change(sender: Sender, number: int) -> bytes:
    body = config_map("default", number)
    body["data"] = {**body["data"], "value": "changed"}
    return sender.request("PUT", f"{_PATH}/{name_of(number)}", body)


async def update(env: Environment, count: int) -> Counts:
    """Replace objects."""
    await _create_all(env, count)
    return await _counted(env, count, _change)


async def watched_update(env: Environment, count: int) -> Counts:
    """Replace objects that ten clients watch."""
    await _create_all(env, count)
    return await _counted(env, count, _change, watchers=_WATCHERS)


OPERATIONS: dict[str, Callable[[Environment, int], Awaitable[Counts]]] = {
    "server: create": create,
    "server: get": get,
    "server: update": update,
    "server: update, 10 watchers": watched_update,
}
