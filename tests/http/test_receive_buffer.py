"""The receive buffer of a loop."""

from __future__ import annotations

import asyncio
import threading

from opsdk.http.receive_buffer import SharedBufferProtocol
from opsdk.testing.loop import VirtualLoop


class Receiver(SharedBufferProtocol):
    """Keeps what it receives."""

    def __init__(self) -> None:
        super().__init__()
        self.data: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self.data.append(data)


async def test_received_bytes_outlive_the_next_read() -> None:
    """Connections share the buffer, and each gets a copy of its bytes."""
    loop = asyncio.get_running_loop()
    receivers: list[Receiver] = []

    def make() -> Receiver:
        receivers.append(Receiver())
        return receivers[-1]

    server = await loop.create_server(make, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients = [(await loop.create_connection(asyncio.Protocol, "127.0.0.1", port))[0] for _ in range(2)]
    for number, client in enumerate(clients):
        client.write(b"%d" % number * 100_000)
    while sum(len(data) for receiver in receivers for data in receiver.data) < 200_000:
        await asyncio.sleep(0.001)
    assert {b"".join(receiver.data) for receiver in receivers} == {b"0" * 100_000, b"1" * 100_000}
    assert receivers[0].get_buffer(-1) is receivers[1].get_buffer(-1)
    for client in clients:
        client.abort()
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0.01)


def test_loops_do_not_share_a_buffer() -> None:
    """Two loops may receive at the same time in two threads."""
    buffers: list[memoryview] = []

    async def main() -> None:
        buffers.append(Receiver().get_buffer(-1))

    def run() -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(main())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert buffers[0] is not buffers[1]
