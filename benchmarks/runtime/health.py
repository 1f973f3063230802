"""How late ``/healthz`` is. The probe is a process of its own, because the attackers' work must not count."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Self

_PROBE = """
import json, socket, sys, threading, time
port, latencies, ended = int(sys.argv[1]), [], threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.is_set():
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
        response = connection.recv(65536)
    latencies.append(time.monotonic() - start if b" 200 " in response[:20] else 1e9)
    ended.wait(float(sys.argv[2]))
print(json.dumps(latencies))
"""


class HealthProbe:
    """Requests ``/healthz`` from entering to leaving the context.

    Attributes:
        latencies: of all responses, in seconds; known at the end.
    """

    def __init__(self, port: int, *, pause: float = 0.02) -> None:
        self.latencies: list[float] = []
        self._port, self._pause = port, pause
        self._process: asyncio.subprocess.Process | None = None

    @property
    def latest(self) -> float:
        """The longest latency in seconds."""
        return max(self.latencies)

    async def __aenter__(self) -> Self:
        command = (sys.executable, "-c", _PROBE, str(self._port), str(self._pause))
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        output = (await self._process.communicate(b""))[0]
        self.latencies = json.loads(output)
