"""Runs a coroutine in a closed process: virtual time, seeded randomness, and no connection to anything outside."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from opsdk.aio.garbage import SELDOM, rare_collections
from opsdk.aio.virtual_loop import VIRTUAL_EPOCH, DeadlockError, HotLoopError, VirtualLoop
from opsdk.engine.connections import refuse_connections
from opsdk.engine.determinism import seeded_entropy

__all__ = ["EndKind", "RunEnd", "WorldRunner", "closed_process"]

T = TypeVar("T")


class EndKind(StrEnum):
    """How a run ended."""

    DONE = "done"
    """The coroutine returned."""
    DEADLOCK = "deadlock"
    """Every task waited, and no timer was set."""
    HOT_LOOP = "hot loop"
    """Work went on without end, so that virtual time stood still."""
    EXIT = "crash"
    """Something in the run ended the process."""


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended, and why.

    >>> str(RunEnd(EndKind.EXIT, "the operator ended its process with status 3"))
    'crash: the operator ended its process with status 3'
    """

    kind: EndKind = EndKind.DONE
    detail: str = ""

    @property
    def is_early(self) -> bool:
        """Whether the coroutine did not return."""
        return self.kind is not EndKind.DONE

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.detail}"


@contextmanager
def closed_process(
    seed: int, *, allowed_hosts: Collection[str] = (), subject: str = "the plan", collections: int = SELDOM
) -> Iterator[Collection[str]]:
    """In the block, randomness comes from the seed, and connections are refused. Yields the refused targets.

    Args:
        seed: of every random number of the process.
        allowed_hosts: that may be reached.
        subject: what does not reach the others, see `refuse_connections`.
        collections: of the garbage collector, see `rare_collections`.
    """
    with (
        rare_collections(collections),
        seeded_entropy(seed),
        refuse_connections(allowed_hosts, subject=subject) as connections,
    ):
        yield connections


class WorldRunner(Generic[T]):
    """Runs one coroutine in a closed process, in virtual time. Equal arguments give equal runs, in any process.

    Args:
        seed: of every random number.
        order: the seed of the order in which tasks run that are ready at once; None for first in, first out.
        epoch: the time of day at which the run begins.
        allowed_hosts: outside of the process that may be reached.
        subject: what does not reach the others, in messages.
        collections: of the garbage collector, see `rare_collections`.

    Attributes:
        end: how the run ended.
        connections: targets outside of the process that were refused until now, each once.
        seconds: of virtual time, at the end.
        draws_random: whether anything drew from Python's global random numbers.

    >>> runner = WorldRunner[float](seed=1)
    >>> async def nap() -> float:
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> runner.run(nap()), runner.end.kind.value
    (3600.0, 'done')
    """

    def __init__(
        self,
        *,
        seed: int,
        order: int | None = None,
        epoch: datetime = VIRTUAL_EPOCH,
        allowed_hosts: Collection[str] = (),
        subject: str = "the plan",
        collections: int = SELDOM,
    ) -> None:
        self._seed, self._collections = seed, collections
        self._new_loop = partial(VirtualLoop, seed, order=order, epoch=epoch)
        self._allowed_hosts, self._subject = allowed_hosts, subject
        self.end = RunEnd()
        self.connections: Collection[str] = ()
        self.seconds = 0.0
        self.draws_random = False

    def run(self, main: Coroutine[Any, Any, T]) -> T | None:
        """Run a coroutine, and return its result; None if it did not return, see `end`.

        Must not be called from a running event loop. What the coroutine raises is raised.
        """
        with (
            closed_process(
                self._seed, allowed_hosts=self._allowed_hosts, subject=self._subject, collections=self._collections
            ) as self.connections,
            asyncio.Runner(loop_factory=self._new_loop) as runner,
        ):
            state = random.getstate()
            try:
                return runner.run(main)
            except DeadlockError as error:
                self.end = RunEnd(EndKind.DEADLOCK, str(error))
            except HotLoopError as error:
                self.end = RunEnd(EndKind.HOT_LOOP, str(error))
            except SystemExit as end:
                self.end = RunEnd(EndKind.EXIT, f"the operator ended its process with status {end.code}")
            finally:
                self.seconds = runner.get_loop().time()
                self.draws_random = random.getstate() != state
        return None
