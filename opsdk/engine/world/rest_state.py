"""The state of a run at rest: the objects that the operator wrote, and how often each came and went. Pure.

Two runs of one workload come to rest in the same state, but for times, uids, generated names and what the server
assigns.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.masking import masked
from opsdk.engine.net_changes import is_ignored
from opsdk.engine.ownership import own_part
from opsdk.engine.world.masks import Ignored, without_ignored
from opsdk.engine.world.readiness import unready_reason
from opsdk.engine.writes import Entry
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["RestState", "StateRecorder", "is_retrying", "subject_of"]

_DAEMON: Final = "daemon"
"""Begins the results of records that are no reconciles."""
_RETRY: Final = "retry in "
"""Begins the detail of a failed reconcile; the delay differs each time."""
_NUMBER: Final = re.compile(r"\d+")
_COUNTER: Final = "observedGeneration"


class RestState(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that the operator wrote in a run, by storage key. A generated name is its prefix and a star.

    Attributes:
        objects: the fields of each that the operator owns, without what differs between any two runs.
        created: how often the operator created each while an owner of it was there.
        deleted: how often the operator removed each.
        unready: what each workload, pod and job among them waits for.
        failing: the error of each object whose last reconcile failed.
        missing: the objects that the last reconciles read, and that do not exist.
        events: number of Events that the operator recorded until now.
        children: those that exist, have a name of their own, and have an owner.
        generations: of the objects that have one: a status may repeat it, which counts the changes until then.
        ignored: the objects with fields that runs do not compare, as text: a field of the spec may change only them.
        lagging: the objects whose status says that it observed another generation than the present one, and which.
    """

    objects: Mapping[str, list[JsonObject]] = {}
    created: Mapping[str, int] = {}
    deleted: Mapping[str, int] = {}
    unready: Mapping[str, str] = {}
    failing: Mapping[str, str] = {}
    missing: frozenset[str] = frozenset()
    events: int = 0
    children: frozenset[str] = frozenset()
    generations: Mapping[str, int] = {}
    lagging: Mapping[str, str] = {}
    ignored: str = ""

    @property
    def keys(self) -> set[str]:
        """The keys of all objects, also of those that are gone."""
        return {*self.objects, *self.created, *self.deleted}


class StateRecorder:
    """Follows the writes of a run.

    Args:
        ignored: what is not compared.

    Attributes:
        has_systems: external systems number what the operator creates there, and its status repeats it.
    """

    def __init__(self, ignored: Sequence[Ignored] = ()) -> None:
        self._ignored = ignored
        self.has_systems = False
        self._latest: dict[str, JsonObject] = {}
        self._names: dict[str, str] = {}
        self._own: set[str] = set()
        self._managers: set[str] = set()
        self._uids: set[object] = set()
        self._created: Counter[str] = Counter()
        self._deleted: Counter[str] = Counter()
        self._finalized: set[tuple[str, object]] = set()
        self._late: dict[str, None] = {}
        self._events = 0

    def add(self, entry: Entry, *, own: bool, client: str = "") -> None:
        """Add a write, in the order of the revisions.

        Args:
            entry: the write.
            own: the operator sent it.
            client: the process of the operator that did: another one may not have seen what this one has.
        """
        self._events += own and entry.ref.resource == "events"
        if is_ignored(entry):
            return
        name = self._names.setdefault(entry.key, _stable_key(entry))
        if own:
            self._own.add(name)
            self._managers.add(entry.writer.manager)
        if entry.after is None:
            gone = self._latest.pop(entry.key, None)
            self._uids.discard(_uid(gone or entry.before))
            self._deleted[name] += own
            if own and (entry.before or {}).get("metadata", {}).get("deletionTimestamp"):
                self._finalized.add((client, _uid(entry.before)))
        else:
            self._latest[entry.key] = entry.after
            self._uids.add(_uid(entry.after))
            # A child of an owner that has just gone is collected. A replica that has not seen that does no harm.
            owners = [each.get("uid") for each in entry.after["metadata"].get("ownerReferences") or ()]
            if entry.before is None:
                self._created[name] += own and (not owners or not self._uids.isdisjoint(owners))
                if own and not self._finalized.isdisjoint((client, owner) for owner in owners):
                    self._late[name] = None

    @property
    def violations(self) -> list[str]:
        """The children of owners whose last finalizer the same process had removed before: it had seen the deletion."""
        return [f"deletion: {subject_of(name)} was created for an owner that was let go" for name in self._late]

    def current(self, passes: Iterable[ReconcileRecord] = ()) -> RestState:
        """Return the state now.

        Args:
            passes: the reconciles until now, oldest first.
        """
        own = [
            (name, obj, own_part(obj, self._managers))
            for key, obj in self._latest.items()
            if (name := self._names[key]) in self._own
        ]
        generations = {name: value for name, obj, _ in own if isinstance(value := _generation(obj), int)}
        lagging = {name: lag for name, obj, part in own if (lag := _lag(part, _generation(obj)))}
        objects: dict[str, list[JsonObject]] = {}
        unready: dict[str, str] = {}
        hidden: list[str] = []
        for name, obj, part in own:
            decided = _comparable(part, self.has_systems)
            comparable = without_ignored(name, decided, self._ignored)
            if comparable is not decided:
                hidden.append(json.dumps(decided, sort_keys=True))
            if comparable is None:
                continue
            objects.setdefault(name, []).append(comparable)
            if reason := unready_reason(obj):
                unready[name] = reason
        latest = _latest(passes)
        for states in objects.values():
            states.sort(key=lambda state: json.dumps(state, sort_keys=True))
        return RestState(
            objects=objects,
            created=self._counted(self._created),
            deleted=self._counted(self._deleted),
            unready=unready,
            failing=dict(_failing(latest)),
            missing=frozenset(_missing(latest)),
            events=self._events,
            children=frozenset(self._children()),
            generations=generations,
            lagging=lagging,
            ignored="\n".join(sorted(hidden)),
        )

    def _counted(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        return {
            name: count
            for name in self._own
            if (count := counts.get(name, 0)) and without_ignored(name, {}, self._ignored) is not None
        }

    def _children(self) -> Iterator[str]:
        """Yield the objects that have an owner and a name of their own: generated names differ in each run."""
        for key, obj in self._latest.items():
            if (
                key in self._own
                and without_ignored(key, {}, self._ignored) is not None
                and obj["metadata"].get("ownerReferences")
            ):
                yield key

    def child(self, key: str) -> tuple[JsonObject, JsonObject] | None:
        """Return an object as it is stored, and the part that the operator owns; None if it does not exist."""
        obj = self._latest.get(key)
        return None if obj is None else (obj, own_part(obj, self._managers))


def is_retrying(passes: Collection[ReconcileRecord]) -> bool:
    """Whether the last reconcile of an object failed, and is going to be repeated."""
    return any(record.result == "error" and record.detail.startswith(_RETRY) for record in _latest(passes).values())


def _latest(passes: Iterable[ReconcileRecord]) -> Mapping[tuple[str, str, str], ReconcileRecord]:
    """Return the last reconcile of each object by each controller; calls of daemons do not count."""
    return {
        (each.controller, each.namespace, each.name): each for each in passes if not each.result.startswith(_DAEMON)
    }


def _failing(latest: Mapping[tuple[str, str, str], ReconcileRecord]) -> Iterator[tuple[str, str]]:
    """Yield the objects whose last reconcile failed, with the error and the author's line."""
    for (_, namespace, name), record in latest.items():
        if record.result == "error":
            delay, _, error = record.detail.partition(": ")
            error = error if delay.startswith(_RETRY) else record.detail
            yield f"{namespace}/{name}", f"{error}, raised at {record.raised_at}" if record.raised_at else error


def _missing(latest: Mapping[tuple[str, str, str], ReconcileRecord]) -> Iterator[str]:
    """Yield kind and name of what was read in vain. The reconciled object itself may be gone."""
    for record in latest.values():
        for read in record.reads:
            own = read.gvk == record.kind and read.key.split("/")[-1] == record.name
            if not read.resource_version and not own:
                yield f"{read.gvk.rpartition('Kind=')[2]} {read.key}"


def _uid(obj: JsonObject | None) -> object:
    return None if obj is None else obj["metadata"].get("uid")


def _stable_key(entry: Entry) -> str:
    obj = entry.after or entry.before
    assert obj is not None
    prefix = obj["metadata"].get("generateName")
    return f"{entry.key.rpartition('/')[0]}/{prefix}*" if prefix else entry.key


def _generation(obj: JsonObject) -> object:
    return obj["metadata"].get("generation")


def _lag(part: JsonObject, generation: object) -> str:
    """Return the generation that a status says it observed, if it is not the present one.

    0 is no generation: it is the default of a field that the operator does not write.
    """
    status = part.get("status")
    observed = status.get(_COUNTER) if isinstance(status, dict) else None
    if not isinstance(observed, int) or not isinstance(generation, int) or observed in (0, generation):
        return ""
    return f"status.{_COUNTER} is {observed} at rest, and metadata.generation is {generation}"


def _comparable(part: JsonObject, has_systems: bool) -> JsonObject:
    """Return what the operator decided: what built-in controllers set may depend on the way to the same end."""
    if "status" in part:
        part["status"] = _without_counters(part["status"])
        if has_systems:
            part["status"] = _without_numbers(part["status"])
    comparable = masked("", part)
    assert isinstance(comparable, dict)
    return comparable


def _without_counters(value: JsonValue, name: str = "") -> JsonValue:
    """Return a part of a status without the generations that it observed, and without the numbers in messages."""
    if isinstance(value, dict):
        return {key: _without_counters(item, key) for key, item in value.items() if key != _COUNTER}
    if isinstance(value, list):
        return [_without_counters(item) for item in value]
    return _NUMBER.sub("...", value) if name == "message" and isinstance(value, str) else value


def _without_numbers(value: JsonValue) -> JsonValue:
    """Return a part of a status without the numbers in its texts: the second record has another one than the first."""
    if isinstance(value, dict):
        return {key: _without_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_numbers(item) for item in value]
    return _NUMBER.sub("...", value) if isinstance(value, str) else value


def subject_of(key: str) -> str:
    """Return resource and name of a storage key, for readers."""
    _, resource, *names = key.split("/")
    return f"{resource} {'/'.join(names)}"
