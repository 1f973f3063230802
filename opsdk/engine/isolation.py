"""Makes a snapshot stand alone: without servers outside of it, and without owners that were not read. Pure.

What is left out is named, because a plan cannot promise what depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from opsdk.apimachinery.tree_names import key_of_tree, subject_of_tree
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotKind, Unseen
from opsdk.structured_merge.value import JsonObject

__all__ = ["callers_of", "isolate", "with_callers", "with_certificates_of", "without_server"]

_WEBHOOKS: Final = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_NODES: Final = SnapshotKind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)
_NAMESPACES: Final = SnapshotKind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
_OF_EACH_SERVER: Final = frozenset({"", "default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that a server creates at its start, and that of cluster-scoped objects."""


def isolate(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot as a local server can serve it. Isolating it twice changes nothing.

    Webhooks and aggregated API servers of the cluster are not called; conversion webhooks neither, so objects of their
    kinds keep their fields in each version. Owner references to objects that were not read are dropped, or the garbage
    collector would delete the dependents. Pods keep their nodes, also if nodes were not read, and objects their
    namespaces.
    """
    notes: list[Unseen] = []
    objects = [
        own for obj in snapshot.objects if (own := _STEPS.get(str(obj["kind"]), _unchanged)(obj, notes)) is not None
    ]
    objects = list(_without_unread_owners(objects, notes))
    kinds = list(snapshot.kinds)
    for kind, assumed, reason in (
        (_NODES, _nodes_of(objects), "they were not read: the nodes of the pods are assumed to be healthy"),
        (_NAMESPACES, _namespaces_of(objects), "they were not read: those of the objects are assumed to exist"),
    ):
        if assumed and all(each.bucket != kind.bucket for each in kinds):
            kinds.append(msgspec.structs.replace(kind, count=len(assumed)))
            objects += assumed
            notes.append(Unseen(what=kind.plural, reason=reason))
    unseen = tuple(dict.fromkeys((*snapshot.unseen, *notes)))
    return msgspec.structs.replace(snapshot, kinds=tuple(kinds), unseen=unseen, objects=objects)


def callers_of(snapshot: ClusterSnapshot) -> Sequence[JsonObject]:
    """Return the objects that `isolate` leaves out or changes, because they name servers outside of a local one."""
    return [obj for obj in snapshot.objects if _STEPS.get(str(obj["kind"]), _unchanged)(obj, []) is not obj]


def with_callers(objects: Sequence[JsonObject], callers: Iterable[JsonObject]) -> Sequence[JsonObject]:
    """Return the objects at the end of a run with those that its fork could not have: the next run reads them.

    A definition gets the conversion webhook of the cluster again, unless it has another one at the end.
    """
    left_out = {(obj["kind"], obj["metadata"]["name"]): obj for obj in callers}
    ended = []
    for obj in objects:
        caller = left_out.pop((obj["kind"], obj["metadata"]["name"]), None)
        ended.append(obj if caller is None else _with_conversion(obj, caller))
    return [*ended, *left_out.values()]


def _with_conversion(obj: JsonObject, before: JsonObject) -> JsonObject:
    """Return a definition with the conversion that it had before `isolate`; other objects as they are."""
    if obj["kind"] != "CustomResourceDefinition" or (obj["spec"].get("conversion") or {}).get("strategy") == "Webhook":
        return obj
    return {**obj, "spec": {**obj["spec"], "conversion": before["spec"]["conversion"]}}


def with_certificates_of(end: ClusterSnapshot, start: ClusterSnapshot) -> ClusterSnapshot:
    """Return the end of a run with the root certificates of its start: a local server has another one in each run.

    A namespace of the run itself has an empty certificate.
    """
    published = {key_of_tree(obj): obj.get("data") for obj in start.objects if _is_root_certificate(obj)}
    objects = [
        {**obj, "data": published.get(key_of_tree(obj), {"ca.crt": ""})} if _is_root_certificate(obj) else obj
        for obj in end.objects
    ]
    return msgspec.structs.replace(end, objects=objects)


def _is_root_certificate(obj: JsonObject) -> bool:
    return (obj["kind"], obj["metadata"]["name"]) == ("ConfigMap", "kube-root-ca.crt")


def without_server(snapshot: ClusterSnapshot, url: str) -> ClusterSnapshot:
    """Return the end of a run without references to the webhook server of its operator, which ended with the run.

    Args:
        snapshot: of the end.
        url: that the addresses of the webhooks begin with.
    """
    objects = [own for obj in snapshot.objects if (own := _without_server(obj, url)) is not None]
    return msgspec.structs.replace(snapshot, objects=objects)


def _without_server(obj: JsonObject, url: str) -> JsonObject | None:
    if obj["kind"] in _WEBHOOKS:
        addresses = [str((hook.get("clientConfig") or {}).get("url", "")) for hook in obj.get("webhooks") or ()]
        return None if any(address.startswith(url) for address in addresses) else obj
    if obj["kind"] == "CustomResourceDefinition":
        spec = obj["spec"]
        webhook = (spec.get("conversion") or {}).get("webhook") or {}
        if str((webhook.get("clientConfig") or {}).get("url", "")).startswith(url):
            return {**obj, "spec": {**spec, "conversion": {"strategy": "None"}}}
    return obj


def _unchanged(obj: JsonObject, _: list[Unseen]) -> JsonObject | None:
    return obj


def _webhook(obj: JsonObject, notes: list[Unseen]) -> JsonObject | None:
    names = [hook.get("name", "") for hook in obj.get("webhooks") or ()]
    notes += [Unseen(what=f"webhook {name}", reason="it is not called") for name in names]
    return None


def _api_service(obj: JsonObject, notes: list[Unseen]) -> JsonObject | None:
    service = (obj.get("spec") or {}).get("service")
    if not service:
        return obj
    where = f"{service.get('namespace', '')}/{service.get('name', '')}"
    notes.append(Unseen(what=f"API {obj['metadata']['name']}", reason=f"its server {where} is not called"))
    return None


def _definition(obj: JsonObject, notes: list[Unseen]) -> JsonObject | None:
    spec = obj.get("spec") or {}
    if (spec.get("conversion") or {}).get("strategy") != "Webhook":
        return obj
    if sum(bool(version.get("served")) for version in spec.get("versions") or ()) > 1:
        reason = "it is not called: objects keep their fields in each version"
        notes.append(Unseen(what=f"conversion webhook of {obj['metadata']['name']}", reason=reason))
    return {**obj, "spec": {**spec, "conversion": {"strategy": "None"}}}


_STEPS: Final[Mapping[str, Callable[[JsonObject, list[Unseen]], JsonObject | None]]] = {
    **dict.fromkeys(_WEBHOOKS, _webhook),
    "APIService": _api_service,
    "CustomResourceDefinition": _definition,
}


def _without_unread_owners(objects: Iterable[JsonObject], notes: list[Unseen]) -> Iterator[JsonObject]:
    objects = list(objects)
    uids = {obj["metadata"].get("uid") for obj in objects}
    for obj in objects:
        metadata = obj["metadata"]
        owners = metadata.get("ownerReferences")
        if not owners or all(owner.get("uid") in uids for owner in owners):
            yield obj
            continue
        for owner in owners:
            if owner.get("uid") not in uids:
                what = f"{owner.get('kind')} {owner.get('name')}, the owner of {subject_of_tree(obj)}"
                notes.append(Unseen(what=what, reason="it was not read"))
        read_owners = [owner for owner in owners if owner.get("uid") in uids]
        yield {**obj, "metadata": {**metadata, "ownerReferences": read_owners}}


def _nodes_of(objects: Iterable[JsonObject]) -> Sequence[JsonObject]:
    names = {str(name) for obj in objects if obj["kind"] == "Pod" and (name := (obj.get("spec") or {}).get("nodeName"))}
    return [_assumed(_NODES, name) for name in sorted(names)]


def _namespaces_of(objects: Iterable[JsonObject]) -> Sequence[JsonObject]:
    names = {str(obj["metadata"].get("namespace", "")) for obj in objects} - _OF_EACH_SERVER
    return [_assumed(_NAMESPACES, name) for name in sorted(names)]


def _assumed(kind: SnapshotKind, name: str) -> JsonObject:
    """Return an object that others name, and that was not read."""
    metadata = {"name": name, "uid": f"{kind.kind.lower()}-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
