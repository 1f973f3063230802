"""``LimitRanger``: apply default requests and limits, then check minimum, maximum and ratio.

Upstream: plugin/pkg/admission/limitranger/admission.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from envtest.admission.pod_resources import Amounts, of_pod, read
from envtest.groups.common.defaulting import put
from opsdk.apimachinery.quantity import Quantity
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused, together
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.value import JsonObject

_ANNOTATION: Final = "kubernetes.io/limit-ranger"


class LimitRanger(Plugin):
    """Applies and checks LimitRanges; `ranges` is the lister of the limit ranges."""

    resources = ("pods", "pods/resize", "persistentvolumeclaims")

    def __init__(self, ranges: ObjectCache) -> None:
        self._ranges = ranges

    async def mutate(self, attributes: Attributes) -> None:
        """Set the default requests and limits of new pods."""
        if not writes(attributes, "pods", "CREATE") or attributes.obj is None:
            return
        for limit_range in self._ranges.of(attributes.namespace):
            attributes.obj = with_defaults(attributes.obj, limit_range)

    async def validate(self, attributes: Attributes) -> None:
        """Check pods on create and resize, and claims on create and update."""
        pod = writes(attributes, "pods", "CREATE") or writes(attributes, "pods/resize", "UPDATE")
        if not pod and not writes(attributes, "persistentvolumeclaims", "CREATE", "UPDATE"):
            return
        if attributes.obj is None or ((attributes.old or {}).get("metadata") or {}).get("deletionTimestamp"):
            return
        check = pod_problems if pod else claim_problems
        for limit_range in self._ranges.of(attributes.namespace):
            violations = [text for limit in _limits(limit_range) for text in check(limit, attributes.obj)]
            if violations:
                raise refused(attributes, together(violations))


def _limits(limit_range: JsonObject) -> Iterator[JsonObject]:
    yield from (limit_range.get("spec") or {}).get("limits") or ()


# ------------------------------------------------------------------ defaults
def with_defaults(pod: JsonObject, limit_range: JsonObject) -> JsonObject:
    """Return the pod with the default requests and limits of a LimitRange; the same pod if none apply."""
    limits, requests = dict[str, str](), dict[str, str]()
    for limit in _limits(limit_range):
        if limit.get("type") == "Container":
            limits.update(limit.get("default") or {})
            requests.update(limit.get("defaultRequest") or {})
    if not limits and not requests:
        return pod
    defaulted: JsonObject = copy_tree(pod)
    descriptions = [
        text
        for key, word in (("containers", "container"), ("initContainers", "init container"))
        for container in defaulted["spec"].get(key) or ()
        for text in _fill(container, word, limits, requests)
    ]
    if not descriptions:
        return pod
    meta = defaulted["metadata"]
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        _ANNOTATION: f"LimitRanger plugin set: {'; '.join(descriptions)}",
    }
    return defaulted


def _fill(container: JsonObject, word: str, limits: Mapping[str, str], requests: Mapping[str, str]) -> Iterator[str]:
    resources = container.get("resources") or {}
    container["resources"] = resources
    for kind, defaults in (("requests", requests), ("limits", limits)):
        quantities = dict(resources.get(kind) or {})
        missing = sorted(defaults.keys() - quantities.keys())
        put(quantities, **{name: defaults[name] for name in missing})
        if quantities:
            resources[kind] = quantities
        if missing:
            yield f"{', '.join(missing)} {kind.removesuffix('s')} for {word} {container.get('name', '')}"


# ------------------------------------------------------------------ checks
def pod_problems(limit: JsonObject, pod: JsonObject) -> Iterator[str]:
    """Yield the limits that a pod, or one of its containers, violates."""
    spec, kind = pod.get("spec") or {}, limit.get("type")
    if kind == "Container":
        for key in ("containers", "initContainers"):
            for container in spec.get(key) or ():
                resources = container.get("resources") or {}
                yield from _problems(limit, read(resources.get("requests")), read(resources.get("limits")))
    elif kind == "Pod":
        yield from _problems(limit, of_pod(spec, "requests"), of_pod(spec, "limits"))


def claim_problems(limit: JsonObject, claim: JsonObject) -> Iterator[str]:
    """Yield the limits that a claim violates."""
    if limit.get("type") != "PersistentVolumeClaim":
        return
    requests = read(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    for name, text in sorted((limit.get("min") or {}).items()):
        yield from _minimum_violations(_Bound(limit, name, text, requests, {}))
    for name, text in sorted((limit.get("max") or {}).items()):
        yield from _maximum_violations(_Bound(limit, name, text, requests, requests), "request")


class _Bound:
    """One minimum or maximum of a LimitRange, with the quantity that the object requests."""

    def __init__(self, limit: JsonObject, name: str, text: str, requests: Amounts, limits: Amounts) -> None:
        self.name, self.kind = name, limit["type"]
        self.enforced = Quantity(text)
        self.request, self.limit = requests.get(name), limits.get(name)

    def says(self, which: str) -> str:
        return f"{which} {self.name} usage per {self.kind} is {self.enforced}"


def _problems(limit: JsonObject, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, text in sorted((limit.get("min") or {}).items()):
        yield from _minimum_violations(_Bound(limit, name, text, requests, limits))
    for name, text in sorted((limit.get("max") or {}).items()):
        yield from _maximum_violations(_Bound(limit, name, text, requests, limits), "limit")
    for name, text in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        bound = _Bound(limit, name, text, requests, limits)
        says = f"{bound.name} max limit to request ratio per {bound.kind} is {bound.enforced}"
        if bound.request is None or not bound.request.value:
            yield f"{says}, but no request is specified or request is 0"
        elif bound.limit is None or not bound.limit.value:
            yield f"{says}, but no limit is specified or limit is 0"
        elif bound.limit.value > bound.request.value * bound.enforced.value:
            yield f"{says}, but provided ratio is {float(bound.limit.value / bound.request.value):.6f}"


def _minimum_violations(bound: _Bound) -> Iterator[str]:
    if bound.request is None:
        yield f"{bound.says('minimum')}.  No request is specified"
    elif bound.request < bound.enforced:
        yield f"{bound.says('minimum')}, but request is {bound.request}"
    elif bound.limit is not None and bound.limit < bound.enforced:
        yield f"{bound.says('minimum')}, but limit is {bound.limit}"


def _maximum_violations(bound: _Bound, word: str) -> Iterator[str]:
    if bound.limit is None:
        yield f"{bound.says('maximum')}.  No {word} is specified"
    elif bound.limit > bound.enforced:
        yield f"{bound.says('maximum')}, but {word} is {bound.limit}"
    elif bound.request is not None and bound.request > bound.enforced:
        yield f"{bound.says('maximum')}, but request is {bound.request}"
