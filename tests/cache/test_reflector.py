"""The decisions of a reflector: when to list, to watch and to wait. Pure: the tests pass the time."""

from __future__ import annotations

import random

import msgspec
import pytest

from opsdk.aio.backoff import Backoff
from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.reflector import Reflector, ReflectorStep, Wait
from opsdk.cache.store import InformerStore
from opsdk.errors import ConnectionLostError, GoneError, OpsdkError, ServiceUnavailableError


class Life:
    """A reflector on a clock, whose lists and watches a test answers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reflector = Reflector(InformerStore(), backoff=Backoff())
        self.waits: list[float] = []
        self.version = 1
        self.reflector.start()
        self.list()

    def list(self) -> None:
        """Answer a list with nothing."""
        self.version += 1
        self.reflector.on_page(ListMeta(resource_version=str(self.version)))

    def watch(self, seconds: float, *, event: bool = False) -> None:
        """Accept the watch, and let it live."""
        self.reflector.on_watch_start()
        self.reflector.on_watch_open(self.now)
        if event:
            self.version += 1
            meta = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": str(self.version)}
            self.reflector.on_event("MODIFIED", msgspec.json.encode({"metadata": meta}), now=self.now)
        self.now += seconds

    def fail(self, error: OpsdkError) -> None:
        """End the watch, and follow the reflector until it watches again."""
        self.follow(self.reflector.on_watch_error(error, now=self.now))

    def follow(self, step: ReflectorStep) -> None:
        """Take the wait that a step asks for."""
        action = step.next
        if isinstance(action, Wait):
            self.waits.append(action.seconds)
            self.now += action.seconds
            self.reflector.after_wait(action.then)
        if self.reflector.state.value == "listing":
            self.list()


ERRORS = [ConnectionLostError("broke"), ServiceUnavailableError("down"), GoneError("compacted")]


@pytest.mark.parametrize("seed", range(5))
def test_failures_with_healthy_watches_between_them_do_not_add_up(seed: int) -> None:
    """An hour with a failure every 15 s: no wait is longer than after a first failure."""
    rng = random.Random(seed)
    life = Life()
    while life.now < 3600:
        life.watch(15, event=rng.random() < 0.5)
        life.fail(rng.choice(ERRORS))
    assert life.waits
    assert max(life.waits) <= 1.6


def test_watches_that_break_at_once_are_retried_with_growing_delays() -> None:
    """A server that accepts each watch, sends an event and breaks gets requests ever more rarely."""
    life = Life()
    for _ in range(20):
        life.watch(0.5, event=True)
        life.fail(ServiceUnavailableError("down"))
    assert life.waits[-1] >= 30
    assert sorted(life.waits[:5]) == life.waits[:5]
