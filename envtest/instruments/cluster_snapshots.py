"""Loads the snapshot of a cluster into a storage, with uids, resource versions, managed fields, status and times."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from envtest.data.resources import rows
from envtest.data.versions import DEFAULT, VERSIONS, minor_of
from opsdk.apimachinery.tree_names import key_of_tree
from opsdk.apiserver.resources import ResourceInfo, group_version
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.objects import bucket_of, with_revision
from opsdk.engine.isolation import isolate
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotError, SnapshotKind
from opsdk.structured_merge.value import JsonObject

_LOG = logging.getLogger("envtest.snapshots")
_DEFINITION = "CustomResourceDefinition"
_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
_CREATED = "2026-01-01T00:00:00Z"


def service_range_of(snapshot: ClusterSnapshot) -> str:
    """Return the range of the cluster IPs in a snapshot, as CIDR; empty if it does not say it.

    Without the ServiceCIDR, the range has the 65,534 addresses around that of the Service ``kubernetes``.
    """
    by_name = {(obj["kind"], obj["metadata"]["name"]): obj for obj in snapshot.objects}
    cidrs = (by_name.get(("ServiceCIDR", "kubernetes"), {}).get("spec") or {}).get("cidrs") or ()
    for cidr in cidrs:
        if ":" not in cidr:
            return str(cidr)
    address = (by_name.get(("Service", "kubernetes"), {}).get("spec") or {}).get("clusterIP") or ""
    return f"{'.'.join(address.split('.')[:2])}.0.0/16" if address.count(".") == 3 else ""


def load_cluster_snapshot(
    snapshot: ClusterSnapshot, *, history_limit: int = 10_000, kubernetes: str = DEFAULT
) -> MemoryStorage:
    """Return a storage with the objects of a snapshot.

    Objects keep the fields that this version does not know. A kind that it does not know, and that no definition in the
    snapshot describes, is served as a custom resource without a schema.
    """
    other = minor_of(snapshot.server_version)
    if other and other != kubernetes:
        _LOG.warning(
            "the snapshot is of Kubernetes %s and this server serves %s:"
            " kinds and fields that only %s has are kept and not validated%s",
            other, kubernetes, other, f"; choose it with --kubernetes {other}" if other in VERSIONS else "",
        )  # fmt: skip
    isolated = isolate(snapshot)
    revision = max((_revision(obj) for obj in isolated.objects), default=1)
    revision = max(revision, _number(snapshot.resource_version))
    storage = MemoryStorage(revision=revision, history_limit=history_limit)
    prefixes = _Prefixes(isolated, kubernetes)
    for obj in (*isolated.objects, *prefixes.missing_definitions()):
        key, stored = prefixes.entry(obj)
        if not _revision(stored):
            stored = with_revision(stored, revision)
        storage.load(key, stored, floor=revision)
    return storage


def _revision(obj: JsonObject) -> int:
    return _number(obj["metadata"].get("resourceVersion", ""))


def _number(resource_version: str) -> int:
    """Return a resource version as a number; aggregated servers may have others, which count as none."""
    return int(resource_version) if resource_version.isdecimal() and len(resource_version) < 19 else 0


@cache
def _built_in(version: str) -> Mapping[str, ResourceInfo]:
    """Return the built-in resources by the bucket of their objects."""
    resources = (row.info for row in rows(version) if not row.info.subresource)
    return {bucket_of(f"{info.group or 'core'}/{info.resource}/"): info for info in resources}


def in_stored_version(key: str, obj: JsonObject, version: str) -> JsonObject:
    """Return an object of a built-in kind in the version that is stored.

    Versions of a built-in kind differ in few fields. Unknown ones stay in the stored object.
    """
    info = _built_in(version).get(bucket_of(f"{key}/"))
    if info is None or group_version(info.group, info.version) == obj["apiVersion"]:
        return obj
    return {**obj, "apiVersion": group_version(info.group, info.version)}


class _Prefixes:
    """The storage keys of a snapshot's objects."""

    def __init__(self, snapshot: ClusterSnapshot, version: str) -> None:
        self._version = version
        self._kinds = {(kind.api_version, kind.kind): kind for kind in snapshot.kinds}
        self._defined = set(_defined(snapshot.objects))

    def entry(self, obj: JsonObject) -> tuple[str, JsonObject]:
        """Return the key of an object, and the object as it is stored."""
        kind = self._kinds.get((obj["apiVersion"], obj["kind"]))
        name = key_of_tree(obj)
        if kind is None:
            if obj["kind"] != _DEFINITION:
                raise SnapshotError(f"the snapshot has {obj['kind']} {name}, but not its kind: take it again")
            return f"{_DEFINITIONS}/{name}", obj
        return f"{kind.bucket}/{name}", in_stored_version(kind.bucket, obj, self._version)

    def missing_definitions(self) -> Iterator[JsonObject]:
        """Yield definitions for kinds that neither this version nor the snapshot defines."""
        for kind in self._kinds.values():
            if kind.bucket not in _built_in(self._version) and (kind.group, kind.plural) not in self._defined:
                yield _definition_without_schema(kind)


def _defined(objects: Iterable[JsonObject]) -> Iterator[tuple[str, str]]:
    for obj in objects:
        if obj["kind"] == _DEFINITION:
            yield obj["spec"]["group"], obj["spec"]["names"]["plural"]


def _definition_without_schema(kind: SnapshotKind) -> JsonObject:
    """Return an established definition that keeps every field."""
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    conditions: Sequence[JsonObject] = [
        {"type": name, "status": "True", "reason": reason, "message": "", "lastTransitionTime": _CREATED}
        for name, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": _DEFINITION,
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "uid": f"definition-{kind.plural}.{kind.group}",
            "creationTimestamp": _CREATED,
            "generation": 1,
            # Groups of Kubernetes need it; the text is shown to readers.
            "annotations": {"api-approved.kubernetes.io": "unapproved, loaded from a snapshot"},
        },
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [version],
        },
        "status": {"conditions": conditions, "acceptedNames": names, "storedVersions": [kind.version]},
    }
