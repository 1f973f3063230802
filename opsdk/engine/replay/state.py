"""The state that an operator saw at a place of its recording, as a snapshot: plans and other versions begin with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from opsdk.builder.operator import Operator
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotKind
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

__all__ = ["NO_CACHES", "snapshot_of"]

_DEFINITIONS: Final = SnapshotKind(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
_CONDITIONS: Final = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)
NO_CACHES: Final = (
    "the operator has no caches there: it has not started or has stopped; "
    "name a place with --to-reconcile, --to-time or --to-write"
)
"""Why there is no state at a place. A recording ends with the stop of the operator, unless it was killed."""
_CREATED: Final = "1970-01-01T00:00:00Z"
_NAMESPACES: Final = SnapshotKind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)


def snapshot_of(replay: OperatorReplay) -> ClusterSnapshot:
    """Return what the caches of an operator have at this place, the namespaces of these objects, and its definitions.

    The definitions are those of the operator's classes. Objects that it reads directly from the server are missing.
    Values of Secrets are those of the recording: digests, unless it keeps them.

    Args:
        replay: at a place after the start of the caches.

    Raises:
        UsageError: the operator has no caches there. A plan of nothing would say that all is well.
    """
    cached = replay.operator.cluster.cache.kinds()
    if not cached:
        raise UsageError(NO_CACHES)
    kinds = [
        SnapshotKind(
            group=kind.gvk.group,
            version=kind.gvk.version,
            kind=kind.gvk.kind,
            plural=kind.mapping.resource.resource,
            namespaced=kind.mapping.namespaced,
        )
        for kind in cached
        if not kind.metadata_only
    ]
    names = {(kind.api_version, kind.kind) for kind in kinds}
    objects = [obj for obj in replay.objects() if (obj["apiVersion"], obj["kind"]) in names]
    for kind, trees in ((_NAMESPACES, _namespaces_of(objects)), (_DEFINITIONS, _definitions_of(replay.operator))):
        if all(other.resource != kind.resource for other in kinds):
            kinds.append(kind)
            objects = [*trees, *objects]
    return ClusterSnapshot(taken_at=replay.wall.isoformat(), kinds=tuple(kinds), objects=objects)


def _namespaces_of(objects: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for name in sorted({str(obj["metadata"].get("namespace", "")) for obj in objects} - {""}):
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "uid": f"namespace-{name}", "resourceVersion": "1"},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


def _definitions_of(operator: Operator) -> Iterator[JsonObject]:
    """Yield the definitions of the operator's classes, as a server has established them."""
    # The address of conversion webhooks is not known in a replay.
    for tree in operator.definitions() if not operator.converters else ():
        spec, name = tree["spec"], str(tree["metadata"]["name"])
        names = {"singular": spec["names"]["kind"].lower(), "listKind": f"{spec['names']['kind']}List", **spec["names"]}
        conditions: Sequence[JsonObject] = [
            {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": _CREATED}
            for kind, reason, message in _CONDITIONS
        ]
        stored = [version["name"] for version in spec["versions"] if version["storage"]]
        yield {
            **tree,
            "metadata": {
                **tree["metadata"],
                "uid": f"definition-{name}",
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": _CREATED,
            },
            "spec": {"conversion": {"strategy": "None"}, **spec, "names": names},
            "status": {"conditions": conditions, "acceptedNames": names, "storedVersions": stored},
        }
