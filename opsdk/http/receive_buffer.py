"""One receive buffer for all connections of an event loop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final
from weakref import WeakKeyDictionary

_SIZE: Final = 64 * 1024
"""Bytes that asyncio receives at once. The loop parses them in 4 ms if a client sends chunks of one byte."""
_BUFFERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview]] = WeakKeyDictionary()


class SharedBufferProtocol(asyncio.BufferedProtocol, ABC):
    """A protocol with `data_received` that receives through a buffer of its loop.

    For an `asyncio.Protocol`, asyncio allocates 256 KiB for each read, which the C library maps and unmaps: 14 of 17 us
    for a small message. A loop fills the buffer and calls `buffer_updated` without another read between.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        received = _BUFFERS.get(loop)
        if received is None:
            received = _BUFFERS[loop] = memoryview(bytearray(_SIZE))
        self._received = received

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        self.data_received(bytes(self._received[:nbytes]))

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
