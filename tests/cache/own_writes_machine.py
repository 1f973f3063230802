"""An informer with own writes and cached reads beside a server, for an exhaustive search.

Laws:

1. A cached read never shows a state older than an acknowledged write of this process, unless the server went back
   since. A write whose response is lost counts too, if the server carried it out.
2. Deltas follow from each other, and a handler's picture is always the store.
3. At rest every read equals the server, and no record of a write is left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, NamedTuple

import msgspec
from client_fakes import served
from state_search import flatten

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.selectors import FieldSelector
from opsdk.cache.entry import StoreEntry
from opsdk.cache.informer_writes import InformerWrites
from opsdk.cache.options import CacheOptions
from opsdk.cache.own_writes import OwnWrites, _Since
from opsdk.cache.reflector import Reflector, ReflectorState
from opsdk.cache.store import InformerStore
from opsdk.cache.unknown_reads import UnknownRead
from opsdk.cache.write_recorder import WriteRecorder, _lists_of
from opsdk.client.operations import Create, Delete, Update
from opsdk.errors import AlreadyExistsError, ApiError, ConflictError, ConnectionLostError, NotFoundError
from tests.cache.cache_machine import CacheBounds, ReflectorMachine
from tests.cache.revision_server import NAMESPACE, STEP, Commit, key_of, order_of

MAPPING = served("", "v1", "ConfigMap", "configmaps")
_MOST_STEPS_TO_REST = 40


class CachedConfigMaps:
    """The cache and its one kind, as the recorder of writes sees them."""

    gvk = MAPPING.gvk
    generation = 0
    metadata_only = False
    options = CacheOptions()

    def __init__(self, informer: OwnWritesMachine) -> None:
        self.informer = informer

    def kinds(self) -> list[CachedConfigMaps]:
        """Return the kinds of the cache."""
        return [self]

    def informers_of(self, namespace: str) -> list[OwnWritesMachine]:
        """Return the informers of the kind."""
        return [self.informer]


class SentWrite(NamedTuple):
    """An own write that the server has handled, and whose response is on its way.

    Attributes:
        verb: create, update or delete.
        name: of the object.
        request: the body.
        sent: what the recorder had seen.
        commit: what the server made of it.
        error: what the server responds instead.
    """

    verb: str
    name: str
    request: bytes
    sent: Any
    commit: Commit | None
    error: ApiError | None

    def operation(self) -> Create | Update | Delete:
        """Return the client's operation."""
        if self.verb == "delete":
            return Delete(gvk=MAPPING.gvk, key=key_of(self.name))
        obj = ConfigMap(metadata=ObjectMeta(name=self.name, namespace=NAMESPACE))
        return Create(obj=obj) if self.verb == "create" else Update(obj=obj)


class StartedRead(NamedTuple):
    """A read of an unknown object whose response is on its way."""

    name: str
    read: UnknownRead
    commit: Commit | None


def refuse(problems: Iterable[object]) -> None:
    """No user function fails."""
    raise AssertionError(f"problems: {list(problems)}")


class OwnWritesMachine(ReflectorMachine):
    """One informer without its event loop. It has the attributes of an `Informer` that the recorder of writes needs."""

    def __init__(self, bounds: CacheBounds) -> None:
        super().__init__(bounds)
        self.own_writes = InformerWrites(
            self.store, namespace="", field_selector=FieldSelector(), report=refuse, on_rollback=self.on_rollback
        )
        cache: Any = CachedConfigMaps(self)
        self.recorder = WriteRecorder(cache)
        self.write: SentWrite | None = None
        self.read: StartedRead | None = None
        self.floors: dict[str, int] = {}
        """The resource version behind which a read must not go."""

    # -------------------------------------------------------------- operations
    def operations(self) -> dict[str, Callable[[], None]]:
        """All that can happen now. Each one checks the laws."""
        steps = {**super().operations(), **self._write_steps()}
        return {name: partial(self._checked, step) for name, step in steps.items()}

    def _checked(self, step: Callable[[], None]) -> None:
        step()
        self.check()

    def _write_steps(self) -> dict[str, Callable[[], None]]:
        steps: dict[str, Callable[[], None]] = {}
        for name in self.bounds.own if self.reflector.synced else "":
            if key_of(name) in self.store.own.unknown:
                if self.read is None:
                    steps[f"read {name}"] = partial(self.begin_read, name)
            elif self.write is None and self.commits:
                verb = "create" if self.store.get(key_of(name)) is None else "update"
                steps[f"own {verb} {name}"] = partial(self.send, verb, name)
                if verb == "update":
                    steps[f"own delete {name}"] = partial(self.send, "delete", name)
        if self.read is not None:
            steps["the read ends"] = self.end_read
        if self.write is not None:
            steps["the write is acknowledged"] = self.acknowledge
        return steps

    def fault_steps(self) -> dict[str, Callable[[], None]]:
        """Return what can go wrong now."""
        faults = super().fault_steps()
        if self.write is not None:
            faults["the response is lost"] = self.lose
        if self.read is not None:
            faults["the read fails"] = self.fail_read
        return faults

    # -------------------------------------------------------------- writes
    def send(self, verb: str, name: str) -> None:
        """This process sends a write, and the server handles it. An update sends the version of the cached object."""
        self.commits -= 1
        cached = self.store.get(key_of(name))
        version = "" if cached is None or verb != "update" or self.bounds.unconditional else cached.resource_version
        metadata = {"name": name, "namespace": NAMESPACE} | ({"resourceVersion": version} if version else {})
        request = b"" if verb == "delete" else msgspec.json.encode({"metadata": metadata})
        write = SentWrite(verb, name, request, None, None, None)
        sent = self.recorder.sending(write.operation(), MAPPING)
        error = self._rejection(verb, name, version)
        commit = None
        if error is None:
            commit = (self.server.delete if verb == "delete" else self.server.put)(name, own=True)
        self.write = write._replace(sent=sent, commit=commit, error=error)

    def _rejection(self, verb: str, name: str, version: str) -> ApiError | None:
        existing = self.server.objects.get(name)
        if verb == "create":
            return AlreadyExistsError("exists") if existing is not None else None
        if existing is None:
            return NotFoundError("not found")
        return ConflictError("modified") if version and version != str(existing.revision) else None

    def acknowledge(self) -> None:
        """The response to the write arrives."""
        write, self.write = self.write, None
        assert write is not None
        if write.error is not None:
            self.recorder.failed(write.operation(), MAPPING, request=write.request, error=write.error)
            return
        assert write.commit is not None
        response = write.commit.data
        if write.verb == "delete":
            details = {"name": write.name, "uid": str(write.commit.uid)}
            response = msgspec.json.encode({"kind": "Status", "apiVersion": "v1", "details": details})
        self._raise_floor(write.name, write.commit.revision)
        self.recorder.written(write.operation(), MAPPING, request=write.request, response=response, sent=write.sent)
        self.follow_rollback()

    def _raise_floor(self, name: str, revision: int) -> None:
        self.floors[name] = max(self.floors.get(name, 0), revision, key=order_of)

    def lose(self) -> None:
        """The response to the write is lost. A read that begins now shows the write, if the server carried it out.

        It shows what the server has, but a later one need not: a response with 404 has no resource version, so the
        watch may show states of an object whose deletion was read.
        """
        write, self.write = self.write, None
        assert write is not None
        if write.commit is not None:
            self._raise_floor(write.name, write.commit.revision)
        error = ConnectionLostError("the connection broke")
        self.recorder.failed(write.operation(), MAPPING, request=write.request, error=error)

    def restore(self, back: int) -> None:
        """The server goes back: responses are lost, and no read has a floor."""
        if self.write is not None:
            self.lose()
        self.read = None
        self.floors.clear()
        super().restore(back)

    # -------------------------------------------------------------- reads
    def begin_read(self, name: str) -> None:
        """A cached read asks the server, which handles the request."""
        key = key_of(name)
        read = UnknownRead(self.store, key, self.store.own.unknown[key])
        self.read = StartedRead(name, read, self.server.objects.get(name))

    def end_read(self) -> None:
        """The response arrives."""
        started, self.read = self.read, None
        assert started is not None
        if started.commit is None:
            started.read.missing()
        else:
            started.read.found()
            self.own_writes.record_read(started.commit.data, started.read.start)
            self.follow_rollback()

    def fail_read(self) -> None:
        """The connection breaks: the object stays unknown."""
        self.read = None

    # -------------------------------------------------------------- laws
    def check(self) -> None:
        """Check the laws that always hold."""
        watched = {
            entry.key.name: (entry.uid, entry.resource_version) for entry in self.store.entries(own_writes=False)
        }
        assert self.shown == watched, f"a handler was shown {self.shown}, and the store has {watched}"
        for name in self.bounds.foreign:
            key, floor = key_of(name), self.floors.get(name, 0)
            if key in self.store.own.unknown:
                continue
            entry = self.store.get(key)
            revision = self.server.deleted.get(name, 0) if entry is None else int(entry.resource_version)
            assert order_of(revision) >= order_of(floor), f"{name} is read at {revision} behind the write of {floor}"

    def come_to_rest(self) -> None:
        """Let everything arrive, read what is unknown, wait for two bookmarks, and check the laws of rest."""
        steps = 0
        while (step := self._next_step_to_rest()) is not None:
            step()
            self.check()
            steps += 1
            assert steps < _MOST_STEPS_TO_REST, f"it does not come to rest: {self.reflector}"
        if not self.server.restored:  # the deletion of an object that came back counts until the second bookmark
            self._check_reads()
        for _ in range(2):
            if self.watch is not None and self.watch.cursor <= self.server.revision:
                self.bookmark()
        self._check_reads()
        assert len(self.store.own) == 0, f"records are left: {self.store.own}"

    def _next_step_to_rest(self) -> Callable[[], None] | None:
        if self.read is not None:
            return self.end_read
        if self.write is not None:
            return self.acknowledge
        steps = self._reflector_steps()
        steps.pop("the list is taken", None)
        steps.pop("bookmark", None)
        if steps:
            return next(iter(steps.values()))
        for key in self.store.own.unknown:
            return partial(self.begin_read, key.name)
        return None

    def _check_reads(self) -> None:
        stored = {name: str(commit.revision) for name, commit in self.server.objects.items()}
        gets = {name: self.store.get(key_of(name)) for name in self.bounds.foreign}
        read = {name: entry.resource_version for name, entry in gets.items() if entry is not None}
        assert read == stored, f"reads show {read}, and the server has {stored}"
        assert {entry.key.name: entry.resource_version for entry in self.store.entries()} == stored

    # -------------------------------------------------------------- the state
    def state(self) -> Hashable:
        """All of the core, with resource versions replaced by their ranks."""
        of_store = {_Since: partial(_since, self.store.own), UnknownRead: partial(_read_parts, self.store)}
        flat = flatten(_machine_parts(self), {**_PARTS, **of_store})
        revisions = sorted({one for one in flat if type(one) is int and one >= STEP})
        ranks = {revision: STEP + rank for rank, revision in enumerate(revisions)}
        epochs = tuple(order_of(revision)[0] for revision in revisions) if self.server.restored else ()
        return tuple(ranks.get(one, one) for one in flat), epochs


def _since(own: OwnWrites, since: _Since) -> tuple[int, int]:
    """Return how many lists and bookmarks came since, as far as it makes a difference."""
    now = own._now
    return min(now.lists - since.lists, 1), min(now.bookmarks - since.bookmarks, 2)


def _machine_parts(machine: OwnWritesMachine) -> tuple[Any, ...]:
    server, watch = machine.server, machine.watch
    return (
        (machine.commits, machine.faults, machine.restores),
        (server.revision, sorted(server.objects.values()), server.compacted, server.restored),
        server.snapshots if machine.restores else (),
        [commit for commit in server.history if commit.revision > machine.oldest_needed()],
        [(name, floor, server.deleted.get(name)) for name, floor in machine.floors.items()],
        machine.reflector,
        machine.store,
        (machine.action, machine.list, watch, machine.write, machine.read, bool(machine.rollback)),
    )


def _reflector_parts(reflector: Reflector) -> tuple[Any, ...]:
    listing = reflector.state is ReflectorState.LISTING
    watches = reflector.save_history()
    return (
        reflector.state,
        reflector.resource_version,
        reflector.synced,
        reflector._watch_list,
        reflector._went_back,
        (watches.objects, watches.broken, watches.expired, watches.opened_at is not None),
        reflector._revision_before if reflector.state is not ReflectorState.BACKING_OFF else 0,
        reflector._replacement.tables.entries if listing else (),
    )


def _store_parts(store: InformerStore) -> tuple[Any, ...]:
    return *store.entries(own_writes=False), store.revision, store._newest, store.own


def _write_parts(write: SentWrite) -> tuple[Any, ...]:
    sent = write.sent
    is_late = sent.lists != _lists_of(sent.informers)
    has_version = b"resourceVersion" in write.request
    return write.verb, write.name, write.commit, type(write.error), has_version, is_late, sent.newest, sent.entry


def _read_parts(store: InformerStore, read: UnknownRead) -> tuple[Any, ...]:
    is_late = read.start.lists != store.lists
    return is_late, read.start.revision, read.start.watched, read.start.visible, read._mark, read._pending


_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    Reflector: _reflector_parts,
    InformerStore: _store_parts,
    StoreEntry: lambda entry: (entry.key.name, entry.uid, entry.resource_version),
    OwnWrites: lambda own: tuple(part for name, part in vars(own).items() if name != "shown_own_changes"),
    Commit: tuple,
    SentWrite: _write_parts,
}
