"""Compares the states that two operators leave behind. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from opsdk.engine.differences import differences
from opsdk.structured_merge.value import JsonObject

__all__ = ["compare_states"]

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


def compare_states(before: Iterable[JsonObject], after: Iterable[JsonObject]) -> Sequence[str]:
    """Return the differences between two states, as lines. Uids, times and addresses do not count.

    Objects with generated names are equal if there are as many equal ones.
    """
    first, second = _by_identity(before), _by_identity(after)
    lines: list[str] = []
    for identity in sorted(first.keys() | second.keys()):
        old, new = first.get(identity, []), second.get(identity, [])
        for index in range(max(len(old), len(new))):
            lines += _compare(
                identity, old[index] if index < len(old) else None, new[index] if index < len(new) else None
            )
    return lines


def _compare(identity: str, old: JsonObject | None, new: JsonObject | None) -> Iterable[str]:
    if old is None:
        yield f"{identity}: only in the second state"
    elif new is None:
        yield f"{identity}: only in the first state"
    else:
        yield from (f"{identity}: {difference}" for difference in differences(old, new))


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
