"""Services that lose their endpoints or go, and what sends requests to them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.plan import Consequence, ConsequenceKind, Severity
from opsdk.engine.writes import Ref
from opsdk.structured_merge.value import JsonObject

__all__ = ["service_consequences"]

_ROUTES: Final = ("HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute")
"""The kinds of the Gateway API whose rules name backends."""
_CALLERS: Final = (
    "Ingress",
    *_ROUTES,
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)


class _Services(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The Services at one time.

    Attributes:
        objects: the Services.
        endpoints: the targets of ready endpoints.
    """

    objects: Mapping[ObjectKey, JsonObject]
    endpoints: Mapping[ObjectKey, frozenset[str]]

    @cached_property
    def live(self) -> frozenset[ObjectKey]:
        """Those that answer: with a ready endpoint, or by the name of another host."""
        return frozenset(
            key
            for key, obj in self.objects.items()
            if self.endpoints.get(key) or (obj.get("spec") or {}).get("type") == "ExternalName"
        )

    @cached_property
    def by_target(self) -> Mapping[str, ObjectKey]:
        """The Services by their endpoints; the last one of several."""
        return {target: key for key, targets in self.endpoints.items() for target in targets}


def service_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield the Services that no longer answer at the end, and what sends requests to them."""
    before = _services(evidence.before("Service"), evidence.before("EndpointSlice"))
    after = _services(evidence.after("Service"), evidence.after("EndpointSlice"))
    for key in before.objects:
        if key in before.live and key not in after.live:
            yield from _lost(key, before, after, evidence)
    yield from _callers(before, after, evidence)


def _services(services: Iterator[JsonObject], slices: Iterator[JsonObject]) -> _Services:
    endpoints: dict[ObjectKey, frozenset[str]] = {}
    for each in slices:
        metadata = each["metadata"]
        name = (metadata.get("labels") or {}).get("kubernetes.io/service-name")
        if name and "deletionTimestamp" not in metadata:
            key = ObjectKey(metadata.get("namespace", ""), name)
            endpoints[key] = endpoints.get(key, frozenset()).union(_ready(each))
    return _Services(objects={_key(obj): obj for obj in services}, endpoints=endpoints)


def _ready(endpoint_slice: JsonObject) -> Iterator[str]:
    """Yield the targets of ready endpoints: the uids of Pods, or the addresses of others."""
    for endpoint in endpoint_slice.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            target = endpoint.get("targetRef") or {}
            yield str(target.get("uid") or " ".join(endpoint.get("addresses") or ()))


def _key(obj: JsonObject) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _lost(key: ObjectKey, before: _Services, after: _Services, evidence: Evidence) -> Iterator[Consequence]:
    """Yield what happens to a Service that answered before."""
    count = len(before.endpoints.get(key, ()))
    if key in after.objects:
        message = f"it has no endpoint at the end; before it had {count}"
        yield Consequence(ConsequenceKind.SERVICE_WITHOUT_PODS, Severity.DANGER, f"Service {key}", message)
        return
    change = evidence.change_of(before.objects[key])
    owners = evidence.ownership.ancestors(before.objects[key])
    if change is None or evidence.is_deleted_by_others(change) or any(map(evidence.is_deleted, owners)):
        return  # the deletion of the owner is a consequence of its own
    successors = (after.by_target.get(target, key) for target in sorted(before.endpoints.get(key, ())))
    successor = next((each for each in successors if each not in before.objects), None)
    renamed = f": Service {successor} has them at the end" if successor is not None else ""
    what = f"with {count} ready endpoints{renamed}" if count else "and its name no longer resolves"
    yield Consequence(ConsequenceKind.SERVICE_DELETED, Severity.DANGER, f"Service {key}", f"it is deleted, {what}")


# ------------------------------------------------------------------ what sends requests
def _callers(before: _Services, after: _Services, evidence: Evidence) -> Iterator[Consequence]:
    """Yield the Ingresses, routes, webhooks and APIs whose Service answered before, and is lost at the end."""
    for former, current in _states(evidence):
        backends = frozenset(_backends(former)) if former is not None else frozenset()
        for key in dict.fromkeys(_backends(current)):
            if key in after.live or evidence.unread.reason(Ref("", "services", *key)) is not None:
                continue
            is_broken = key in before.live or (former is not None and key not in backends and backends & before.live)
            if not is_broken:
                continue
            state = "has no endpoint" if key in after.objects else "does not exist"
            message = f"it sends requests to Service {key}, which {state} at the end"
            yield Consequence(ConsequenceKind.BACKEND_LOST, Severity.DANGER, subject_of_tree(current), message)


def _states(evidence: Evidence) -> Iterator[tuple[JsonObject | None, JsonObject]]:
    """Yield what may send requests to Services, before (None if it is new) and at the end."""
    for obj in evidence.outcome.callers:
        yield obj, obj
    for kind in _CALLERS:
        for obj in evidence.before(kind):
            if (current := evidence.at_end(obj)) is not None:
                yield obj, current
        for change in evidence.of_kind(kind):
            if change.before is None and change.after is not None:
                yield None, change.after


def _backends(obj: JsonObject) -> Iterator[ObjectKey]:
    """Yield the Services that an object sends requests to."""
    namespace = str(obj["metadata"].get("namespace", ""))
    for reference in _references(obj):
        if reference and reference.get("name") and (reference.get("kind") or "Service") == "Service":
            yield ObjectKey(str(reference.get("namespace") or namespace), str(reference["name"]))


def _references(obj: JsonObject) -> Iterator[JsonObject | None]:
    spec = obj.get("spec") or {}
    for hook in obj.get("webhooks") or ():
        yield (hook.get("clientConfig") or {}).get("service")
    if obj["kind"] == "APIService":
        yield spec.get("service")
    elif obj["kind"] == "CustomResourceDefinition":
        yield (((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}).get("service")
    elif obj["kind"] == "Ingress":
        yield (spec.get("defaultBackend") or {}).get("service")
    for rule in spec.get("rules") or () if obj["kind"] in {"Ingress", *_ROUTES} else ():
        for path in (rule.get("http") or {}).get("paths") or ():
            yield (path.get("backend") or {}).get("service")
        yield from _of_route(rule)


def _of_route(rule: JsonObject) -> Iterator[JsonObject | None]:
    references = rule.get("backendRefs") or ()
    yield from references
    for owner in (rule, *references):
        for each in owner.get("filters") or ():
            yield (each.get("requestMirror") or {}).get("backendRef")
