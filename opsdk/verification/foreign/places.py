"""PlaceCounter of a run in real time, where the order of requests may differ between two runs. Pure.

A write is found again by its method and path, and how often it was sent before; a message of a watch by its object. A
generated name is a star.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from opsdk.apiserver.endpoints.request_info import RequestInfo, parse_request
from opsdk.engine.world.disturber import WatchMessage
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.rest_state import RestState
from opsdk.engine.writes import Entry
from opsdk.http.server.request import Query
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.disturbances import WRITES, Disturbance, DisturbanceKind, guided_disturbances

__all__ = [
    "RECORDS",
    "ForeignDisturbance",
    "Moment",
    "PlaceCounter",
    "is_collection",
    "pasts",
    "placed_disturbances",
    "resource_of",
    "stable_path",
    "stable_state",
    "storage_prefix",
]


RECORDS: Final = "kopf.zalando.org/"
"""The prefix of annotations in which kopf keeps the progress of handlers, and the last handled configuration."""


class ForeignDisturbance(Disturbance, frozen=True, kw_only=True):
    """One disturbance of a run in real time.

    Attributes:
        key: namespace and name of the object of the message.
        occurrence: of the write or message, from 1.
        step: for a restart into the past: number of the step after which it happens, from 0.
        past: for a restart into the past: number of the step after which the operator's view was made.
        settled: that view was made when the operator was at rest; otherwise right after the user's write.
    """

    key: str = ""
    occurrence: int = 1
    step: int = -1
    past: int = -1
    settled: bool = False

    def __str__(self) -> str:
        if self.kind is DisturbanceKind.PAST:
            when = "when the operator was at rest after" if self.settled else "right after the user's write of"
            return f"{self.kind.value} after step {self.step + 1}, {self.path} as it was {when} step {self.past + 1}"
        again = f" (time {self.occurrence})" if self.occurrence > 1 else ""
        if self.kind in WRITES:
            return f"{self.kind.value} write {self.number}, {self.method} {self.path}{again}"
        return f"{self.kind.value} message {self.number} of {self.path}, about {self.key}{again}"


# ------------------------------------------------------------------ paths
def resource_of(path: str) -> RequestInfo:
    """Return what a path names."""
    return parse_request("GET", path, Query())


def is_collection(path: str) -> bool:
    """Whether a path is that of a collection, or of the kinds of a group and version.

    >>> is_collection("/apis/apps/v1"), is_collection("/api/v1/pods"), is_collection("/api/v1/nodes/a")
    (True, True, False)
    """
    info = resource_of(path)
    return (info.is_resource and not info.name) or (path.startswith("/apis/") and path.strip("/").count("/") == 2)


def stable_path(path: str, known: Collection[str]) -> str:
    """Return a path that is the same in each run: with a star for a name that is not known.

    >>> stable_path("/api/v1/namespaces/a/pods/web-x7f2/status", ())
    '/api/v1/namespaces/a/pods/*/status'
    """
    info = resource_of(path)
    if path in known or not info.name:
        return path
    head, _, tail = path.rpartition(f"/{info.resource}/{info.name}")
    return f"{head}/{info.resource}/*{tail}"


def stable_state(state: RestState, known: Collection[str]) -> RestState:
    """Return a state whose objects have the same keys in each run: those with unknown names share a key with a star.

    Annotations of `RECORDS` are left out: they tell how the operator came there.

    Args:
        state: of a run.
        known: the keys that are the same in each run.
    """
    names = {key: key if key in known else f"{key.rpartition('/')[0]}/*" for key in state.keys}
    objects: dict[str, list[JsonObject]] = {}
    for key, objs in state.objects.items():
        objects.setdefault(names[key], []).extend(map(_without_records, objs))
    for objs in objects.values():
        objs.sort(key=lambda obj: json.dumps(obj, sort_keys=True))
    created, deleted = Counter[str](), Counter[str]()
    for counts, sums in ((state.created, created), (state.deleted, deleted)):
        for key, count in counts.items():
            sums[names[key]] += count
    return RestState(objects=objects, created=created, deleted=deleted)


def _without_records(obj: JsonObject) -> JsonObject:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(annotations := metadata.get("annotations"), dict):
        return obj
    own = {name: value for name, value in annotations.items() if not name.startswith(RECORDS)}
    return {**obj, "metadata": {**metadata, "annotations": own}}


def storage_prefix(path: str) -> str:
    """Return how the storage keys of a collection begin.

    >>> storage_prefix("/apis/apps/v1/namespaces/a/deployments"), storage_prefix("/api/v1/pods")
    ('apps/deployments/a/', 'core/pods/')
    """
    info = resource_of(path)
    namespace = f"{info.namespace}/" if info.namespace else ""
    return f"{info.group or 'core'}/{info.resource}/{namespace}"


# ------------------------------------------------------------------ places of one run
class PlaceCounter:
    """Counts the writes and messages of a run.

    Args:
        known: paths and keys that are the same in each run; None in the first run, where all are.
    """

    def __init__(self, known: Collection[str] | None = None) -> None:
        self._known = known
        self._counts: Counter[tuple[str, str]] = Counter()

    def write(self, method: str, path: str) -> tuple[str, int]:
        """Return the stable path of a write, and how often it was sent."""
        stable = path if self._known is None else stable_path(path, self._known)
        return stable, self._count(method, stable)

    def message(self, path: str, keys: Sequence[str]) -> tuple[str, int]:
        """Return the object of a message, and how often the watch had a message of it."""
        key = keys[0] if keys else ""
        if self._known is not None and key not in self._known:
            key = f"{key.rpartition('/')[0]}/*"
        return key, self._count(path, key)

    def _count(self, first: str, second: str) -> int:
        self._counts[first, second] += 1
        return self._counts[first, second]


def placed_disturbances(
    writes: Sequence[Exchange], messages: Sequence[WatchMessage], known: Collection[str]
) -> Iterator[ForeignDisturbance]:
    """Yield the disturbances of a reference run.

    Args:
        writes: of the reference run.
        messages: of its watches, those with objects.
        known: the paths and keys that another reference run had too.
    """
    places = PlaceCounter(known)
    sent = {number: places.write(write.method, write.path) for number, write in enumerate(writes, 1)}
    heard = {(message.path, message.number): places.message(message.path, message.keys) for message in messages}
    for each in guided_disturbances(writes, messages):
        if each.kind in WRITES:
            path, occurrence = sent[each.number]
            yield ForeignDisturbance(
                kind=each.kind, number=each.number, path=path, method=each.method, occurrence=occurrence
            )
        else:
            key, occurrence = heard[each.path, each.number]
            yield ForeignDisturbance(kind=each.kind, number=each.number, path=each.path, key=key, occurrence=occurrence)


# ------------------------------------------------------------------ restarts into the past
class Moment(msgspec.Struct, frozen=True):
    """The revisions of a step.

    Attributes:
        before: of the storage when the operator was at rest before the step.
        written: of the user's last write in the step; equal to `before` if there was none.
        settled: when the operator was at rest after the step.
    """

    before: int
    written: int
    settled: int


def pasts(
    entries: Sequence[tuple[Entry, bool]], moments: Sequence[Moment], paths: Collection[str]
) -> Iterator[ForeignDisturbance]:
    """Yield the restarts into the past: those whose view has a change that was reversed since then.

    Sieve's rule: a notification makes the operator delete something, and a later one reverses the first. An operator
    that restarts and sees only the first one deletes again.

    Args:
        entries: the stored writes, each with whether the operator sent it.
        moments: of the steps.
        paths: collections that the operator lists at any version: only there may the server serve an old state.
    """
    for path in sorted(paths):
        prefix = storage_prefix(path)
        for past, moment in enumerate(moments):
            deleted = any(
                own and (entry.after is None or "deletionTimestamp" in entry.after["metadata"])
                for entry, own in entries
                if entry.revision > moment.before
            )
            if not deleted:
                continue
            for settled in (False, True):
                then = _state(entries, prefix, moment.settled if settled else moment.written)
                before = _state(entries, prefix, moment.before)
                reversing = (
                    step
                    for step in range(past + 1, len(moments))
                    if _is_reversed(before, then, _state(entries, prefix, moments[step].settled))
                )
                if (step := next(reversing, None)) is not None:
                    yield ForeignDisturbance(
                        kind=DisturbanceKind.PAST, number=past, path=path, step=step, past=past, settled=settled
                    )


def _state(entries: Sequence[tuple[Entry, bool]], prefix: str, revision: int) -> Mapping[str, JsonObject]:
    """Return the objects of a collection at a revision, by storage key."""
    objects: dict[str, JsonObject] = {}
    for entry, _ in entries:
        if entry.revision <= revision and entry.key.startswith(prefix):
            objects.pop(entry.key, None)
            if entry.after is not None:
                objects[entry.key] = entry.after
    return objects


def _is_reversed(
    before: Mapping[str, JsonObject], then: Mapping[str, JsonObject], now: Mapping[str, JsonObject]
) -> bool:
    """Whether an object that was about to go is there again, or a changed spec has its former value again."""
    for key, former in before.items():
        present = now.get(key)
        if present is None or "deletionTimestamp" in present["metadata"]:
            continue
        if key not in then or "deletionTimestamp" in then[key]["metadata"]:
            return True
        if _spec(then[key]) != _spec(former) and _spec(present) == _spec(former):
            return True
    return False


def _spec(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}
