"""Compares the states that two operators leave behind. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from opsdk.engine.differences import differences
from opsdk.structured_merge.value import JsonObject

__all__ = ["RunComparison", "compare_runs"]

_IGNORED_KINDS: Final = frozenset({"Event", "Lease", "Endpoints", "EndpointSlice"})
"""Kinds that the server's controllers and the operators' libraries write, with names of Pods in them."""
_WORKLOADS: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"})
_ROOT_CERTIFICATE: Final = "kube-root-ca.crt"
_RANDOM: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "deletionTimestamp"}
)
_MASKS: Final = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b(?=[a-f]*[0-9])[0-9a-f]{8,}\b"), "HASH"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"), "ADDRESS"),
)
_RANDOM_FIELDS: Final = frozenset({"nodePort", "healthCheckNodePort", "containerID"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """What differs between the runs of two operators, as lines.

    Attributes:
        differences: fields and objects in which no run of the first operator equals a run of the second.
        unstable: those in which the first two runs differ, but others agree: a race of the operator's own handlers.
    """

    differences: Sequence[str]
    unstable: Sequence[str]


def compare_runs(before: Sequence[Sequence[JsonObject]], after: Sequence[Sequence[JsonObject]]) -> RunComparison:
    """Compare the states that the runs of two operators left behind. One run of each is required.

    Uids, times and addresses do not count. Objects with generated names are equal if there are as many equal ones.

    Args:
        before: the states of the first operator.
        after: the states of the second operator.
    """
    pairs = [_places(first, second) for first in before for second in after]
    lines = {place: line for places in reversed(pairs) for place, line in places.items()}
    stable = {place for place in lines if all(any(place.is_within(other) for other in places) for places in pairs)}
    return RunComparison(
        differences=[line for place, line in sorted(lines.items()) if place in stable],
        unstable=[line for place, line in sorted(lines.items()) if place not in stable],
    )


class _Place(NamedTuple):
    """Where two states differ: the object, its number among equally named ones, the field; empty for the object."""

    identity: str
    number: int
    path: str

    def is_within(self, other: _Place) -> bool:
        """Whether the place is another one, or a part of it."""
        is_part = (
            not other.path or self.path == other.path or self.path.startswith((f"{other.path}.", f"{other.path}["))
        )
        return self[:2] == other[:2] and is_part


def _places(before: Iterable[JsonObject], after: Iterable[JsonObject]) -> dict[_Place, str]:
    """Return the line of each difference between two states."""
    first, second = _by_identity(before), _by_identity(after)
    lines: dict[_Place, str] = {}
    for identity in sorted(first.keys() | second.keys()):
        pairs = zip_longest(first.get(identity, []), second.get(identity, []))
        for number, (old, new) in enumerate(pairs):
            for path, text in _compare(old, new):
                lines[_Place(identity, number, path)] = f"{identity}: {text}"
    return lines


def _compare(old: JsonObject | None, new: JsonObject | None) -> Iterable[tuple[str, str]]:
    """Yield path and text of each difference. The path of a whole object is empty."""
    if old is None:
        yield "", "only in the second state"
    elif new is None:
        yield "", "only in the first state"
    else:
        yield from ((difference.path, str(difference)) for difference in differences(old, new))


def _by_identity(objects: Iterable[JsonObject]) -> dict[str, list[JsonObject]]:
    states: dict[str, list[JsonObject]] = {}
    for obj in objects:
        if not _is_ignored(obj):
            tree = {key: value for key, value in obj.items() if key != "status" or obj["kind"] not in _WORKLOADS}
            states.setdefault(_identity(obj), []).append(_masked(tree))
    for members in states.values():
        members.sort(key=lambda member: json.dumps(member, sort_keys=True))
    return states


def _is_ignored(obj: JsonObject) -> bool:
    """Whether an object belongs to the server, not to an operator."""
    metadata = obj["metadata"]
    namespace, name = str(metadata.get("namespace", "")), str(metadata["name"])
    return (
        obj.get("kind") in _IGNORED_KINDS
        or namespace.startswith("kube-")
        or name == _ROOT_CERTIFICATE
        or any(owner.get("kind") in _WORKLOADS for owner in metadata.get("ownerReferences") or ())
        or (namespace, name) == ("default", "kubernetes")
    )


def _identity(obj: JsonObject) -> str:
    metadata: Mapping[str, Any] = obj["metadata"]
    name = f"{metadata['generateName']}*" if metadata.get("generateName") else metadata["name"]
    identity = f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)
    return f"{obj['kind']} {_masked(identity)}"


def _masked(value: Any, *, path: tuple[str, ...] = ()) -> Any:
    """Return a value without what differs between any two runs."""
    if isinstance(value, Mapping):
        if path == ("metadata",) and value.get("generateName"):
            value = {**value, "name": f"{value['generateName']}*"}
        return {
            key: _masked(member, path=(*path, key))
            for key, member in value.items()
            if key not in _RANDOM_FIELDS and not (key in _RANDOM and path[-1:] in (("metadata",), ("ownerReferences",)))
        }
    if isinstance(value, list):
        return [_masked(member, path=path) for member in value]
    if isinstance(value, str):
        if value.startswith("{") and path[-2:-1] == ("annotations",):
            return _masked_json(value)
        for pattern, mask in _MASKS:
            value = pattern.sub(mask, value)
    return value


def _masked_json(text: str) -> Any:
    """Return the value of an annotation with JSON, in which the order of members does not count."""
    try:
        return _masked(json.loads(text))
    except ValueError:
        return text
