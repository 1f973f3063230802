"""Writers and watchers of an etcd storage that check each other: what was acknowledged, what was seen."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

from opsdk.apiserver.storage.etcd.storage import EtcdStorage
from opsdk.apiserver.storage.ports import ChangeType, KeyExistsError, KeyNotFoundError, StorageChange, Update
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject

PREFIX = "core/configmaps/"
COUNTERS = 3


class History:
    """The outcome of every write, for all writers.

    Attributes:
        acknowledged: what etcd confirmed: the revision with key and content; None for a deletion.
        unknown: contents whose outcome was reported as unknown.
        refused: contents whose write was reported as not done.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[int, tuple[str, object]] = {}
        self.unknown: set[tuple[str, object]] = set()
        self.refused: set[tuple[str, object]] = set()
        self.errors: Counter[str] = Counter()
        self.increments: Counter[str] = Counter()
        self.slowest = 0.0

    def note(self, key: str, content: object, stored: JsonObject) -> None:
        """Note an acknowledged write. Each revision is given once."""
        revision = int(stored["metadata"]["resourceVersion"])
        assert revision not in self.acknowledged, f"{revision} was given to {key} and {self.acknowledged[revision]}"
        self.acknowledged[revision] = (key, content)

    def fail(self, key: str, content: object, error: ApiError) -> None:
        """Note a write that raised."""
        self.errors[f"{error.code} {error.reason}"] += 1
        (self.unknown if error.code == 504 else self.refused).add((key, content))

    def assert_consistent(self, changes: list[StorageChange]) -> None:
        """Assert that a watcher saw each acknowledged write once, in order, and nothing that was refused."""
        revisions = [change.revision for change in changes]
        assert revisions == sorted(set(revisions)), "revisions went back or repeated"
        by_revision = {change.revision: (change.key, content_of(change)) for change in changes}
        for revision, write in self.acknowledged.items():
            assert by_revision.get(revision) == write, f"the write of {write} at {revision} was acknowledged and lost"
        for write in by_revision.values():
            assert write not in self.refused or write in self.unknown, f"{write} was refused and happened"
        states: dict[str, JsonObject | None] = {}
        for change in changes:
            assert change.previous == states.get(change.key), f"a change of {change.key} before {change} is missing"
            states[change.key] = change.value if change.kind is ChangeType.PUT else None


def content_of(change: StorageChange) -> object:
    """What a write is known by."""
    return change.value["by"] if change.kind is ChangeType.PUT and change.value else None


class Writer:
    """Increments counters, and creates and deletes objects of its own."""

    def __init__(self, name: str, storage: EtcdStorage, history: History, rng: random.Random) -> None:
        self._name = name
        self._storage = storage
        self._history = history
        self._rng = rng
        self._number = 0

    async def run(self, *, until: asyncio.Event) -> None:
        """Write until the event."""
        while not until.is_set():
            self._number += 1
            started = time.monotonic()
            await (self._increment() if self._rng.random() < 0.7 else self._create_and_delete())
            self._history.slowest = max(self._history.slowest, time.monotonic() - started)

    async def _increment(self) -> None:
        key, content = f"{PREFIX}counter-{self._rng.randrange(COUNTERS)}", f"{self._name}-{self._number}"
        try:
            stored = await self._storage.guaranteed_update(key, _increment(content))
        except ApiError as error:
            self._history.fail(key, content, error)
        else:
            self._history.note(key, content, stored)
            self._history.increments[key] += 1

    async def _create_and_delete(self) -> None:
        name = f"{self._name}-{self._number}"
        key = f"{PREFIX}{name}"
        value = {"metadata": {"name": name, "uid": name}, "by": name}
        try:
            self._history.note(key, name, await self._storage.create(key, value))
        except KeyExistsError as error:
            raise AssertionError(f"{key} is this writer's, and was reported to exist before") from error
        except ApiError as error:
            self._history.fail(key, name, error)
            return
        try:
            self._history.note(key, None, await self._storage.delete(key))
        except KeyNotFoundError as error:
            raise AssertionError(f"{key} was created, and nobody else deletes it") from error
        except ApiError as error:
            self._history.errors[f"{error.code} {error.reason}"] += 1


def _increment(content: str) -> Update:
    async def step(current: JsonObject | None) -> JsonObject:
        meta = {"uid": content} if current is None else current["metadata"]
        return {"metadata": meta, "n": 1 if current is None else current["n"] + 1, "by": content}

    return step
