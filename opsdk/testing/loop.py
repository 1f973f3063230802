"""An event loop with virtual time, for tests: see `VirtualLoop`."""

from opsdk.aio.virtual_loop import DeadlockError, HotLoopError, VirtualLoop

__all__ = ["DeadlockError", "HotLoopError", "VirtualLoop"]
