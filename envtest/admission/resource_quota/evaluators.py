"""Quota evaluators: the usage that an object counts for. Pure.

Upstream: pkg/quota/v1/evaluator/core (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from envtest.admission.pod_resources import ZERO, Amounts, of_pod, read, with_overhead
from envtest.admission.storage import class_of
from envtest.groups.core.qos import qos_class
from envtest.groups.core.resource_names import COMPUTE, is_extended, is_native
from opsdk.apimachinery.quantity import Quantity
from opsdk.structured_merge.value import JsonObject, JsonValue

_ONE: Final = Quantity("1")
_HUGE: Final = "hugepages-"
_BY_CLASS: Final = (
    ".storageclass.storage.k8s.io/requests.storage",
    ".storageclass.storage.k8s.io/persistentvolumeclaims",
)
_PLAIN: Final = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
"""Resources that also have a quota name without the prefix ``count/``."""
IGNORED: Final = frozenset(
    {
        "/bindings", "/componentstatuses", "/events", "events.k8s.io/events",
        "authentication.k8s.io/tokenreviews", "authentication.k8s.io/selfsubjectreviews",
        "authorization.k8s.io/localsubjectaccessreviews", "authorization.k8s.io/subjectaccessreviews",
        "authorization.k8s.io/selfsubjectaccessreviews", "authorization.k8s.io/selfsubjectrulesreviews",
        "apiregistration.k8s.io/apiservices", "apiextensions.k8s.io/customresourcedefinitions",
    }
)  # fmt: skip
"""Resources that no quota measures."""


def counter_of(group: str, resource: str) -> str:
    """Return the quota resource name for the object count of a resource."""
    return f"count/{resource}.{group}" if group else f"count/{resource}"


def scopes_of(quota: JsonObject) -> Iterator[JsonObject]:
    """Return the scopes of a quota as scope selector requirements."""
    spec = quota.get("spec") or {}
    for scope in spec.get("scopes") or ():
        yield {"scopeName": scope, "operator": "Exists"}
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or ()


class Evaluator:
    """Evaluates kinds of which only the number of objects is limited.

    Attributes:
        names: the quota resource names that the evaluator measures.
        updates: whether updates are measured.
    """

    updates = False

    def __init__(self, group: str, resource: str) -> None:
        plain = {resource} if resource in _PLAIN and not group else set[str]()
        self.names: frozenset[str] = frozenset({counter_of(group, resource), *plain})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(sorted(self.names))}>"

    def handles(self, operation: str, subresource: str) -> bool:
        """Whether a request is measured."""
        return not subresource and (operation == "CREATE" or (operation == "UPDATE" and self.updates))

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of `names` that the evaluator measures."""
        return frozenset(name for name in names if name in self.names)

    def in_scope(self, requirement: JsonObject, obj: JsonObject) -> bool:
        """Whether an object is in a quota scope; most kinds have no scopes."""
        return False

    def usage(self, obj: JsonObject, now: datetime) -> Amounts:
        """Return the usage of an object."""
        return dict.fromkeys(self.names, _ONE)

    def missing(self, names: frozenset[str], obj: JsonObject) -> str:
        """Return the message about requests and limits that the object lacks; empty if it has all."""
        return ""

    def matches(self, quota: JsonObject, names: Iterable[str], obj: JsonObject) -> bool:
        """Whether a quota measures an object."""
        return bool(self.matching(names)) and all(self.in_scope(scope, obj) for scope in scopes_of(quota))


# ------------------------------------------------------------------ pods
class PodEvaluator(Evaluator):
    """Evaluates pods that have not terminated by the requests and limits of their containers."""

    def __init__(self) -> None:
        super().__init__("", "pods")
        parts = {f"{kind}.{name}" for kind in ("requests", "limits") for name in COMPUTE}
        self.names = frozenset({*self.names, "pods", *COMPUTE, *parts})

    def handles(self, operation: str, subresource: str) -> bool:
        """Return whether the request creates or resizes a pod."""
        return operation == ("UPDATE" if subresource == "resize" else "CREATE") and subresource in ("", "resize")

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Return the measured names, with huge pages and extended resources."""
        return frozenset(
            name
            for name in names
            if name in self.names
            or name.startswith((_HUGE, f"requests.{_HUGE}"))
            or (not is_native(name) and name.startswith("requests."))
        )

    def in_scope(self, requirement: JsonObject, obj: JsonObject) -> bool:
        """Return whether the pod is in the scope."""
        spec: JsonObject = obj.get("spec") or {}
        deadline = spec.get("activeDeadlineSeconds")
        match requirement.get("scopeName"):
            case "Terminating":
                return deadline is not None and deadline >= 0
            case "NotTerminating":
                return deadline is None or deadline < 0
            case "BestEffort":
                return qos_class(spec) == "BestEffort"
            case "NotBestEffort":
                return qos_class(spec) != "BestEffort"
            case "PriorityClass":
                return _selected(requirement, spec.get("priorityClassName") or "")
            case "CrossNamespacePodAffinity":
                return any(
                    (bool(term.get("namespaces")) or term.get("namespaceSelector") is not None)
                    for term in _terms(spec.get("affinity") or {})
                )
            case _:
                return False

    def usage(self, obj: JsonObject, now: datetime) -> Amounts:
        """Return the pod count and its compute resources; a terminated pod only uses its object count."""
        counted: Amounts = {"count/pods": _ONE}
        if _ended(obj, now):
            return counted
        spec: JsonObject = obj.get("spec") or {}
        requests, limits = (with_overhead(spec, k, of_pod(spec, k)) for k in ("requests", "limits"))
        return {**counted, **_compute(requests, limits)}

    def missing(self, names: frozenset[str], obj: JsonObject) -> str:
        """Return the compute resources of the quota that a container does not set."""
        spec: JsonObject = obj.get("spec") or {}
        required = sorted(n for n in names if n.removeprefix("requests.").removeprefix("limits.") in ("cpu", "memory"))
        whole = _named(spec)
        silent: dict[str, set[str]] = {}
        for key in ("containers", "initContainers"):
            for container in spec.get(key) or ():
                for name in required:
                    if name not in _named(container) and name not in whole:
                        silent.setdefault(name, set()).add(str(container.get("name", "")))
        description = "; ".join(
            f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(silent.items())
        )
        return f"must specify {description}" if description else ""


def _named(owner: JsonObject) -> frozenset[str]:
    resources = owner.get("resources") or {}
    return frozenset(_compute(read(resources.get("requests")), read(resources.get("limits"))))


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    usage: Amounts = {"pods": _ONE}
    for name, amount in requests.items():
        if name in COMPUTE or name.startswith(_HUGE):
            usage[name] = usage[f"requests.{name}"] = amount
        elif is_extended(name):
            usage[f"requests.{name}"] = amount
    return {**usage, **{f"limits.{name}": amount for name, amount in limits.items() if name in COMPUTE}}


def _ended(pod: JsonObject, now: datetime) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    meta = pod.get("metadata") or {}
    marked, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    if not marked or grace is None:
        return False
    return now > datetime.fromisoformat(marked) + timedelta(seconds=grace)


def _selected(requirement: JsonObject, *values: str) -> bool:
    """Whether a value satisfies the scope selector requirement."""
    expected, actual = requirement.get("values") or (), [value for value in values if value]
    match requirement.get("operator"):
        case "Exists":
            return bool(actual)
        case "DoesNotExist":
            return not actual
        case "In":
            return any(value in expected for value in actual)
        case "NotIn":
            return not actual or any(value not in expected for value in actual)
        case _:
            return False


def _terms(affinity: JsonObject) -> Iterator[JsonObject]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        yield from terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


# ------------------------------------------------------------------ services and claims
class ServiceEvaluator(Evaluator):
    """Evaluates services by number, node ports and load balancers."""

    updates = True

    def __init__(self) -> None:
        super().__init__("", "services")
        self.names = frozenset({*self.names, "services", "services.nodeports", "services.loadbalancers"})

    def usage(self, obj: JsonObject, now: datetime) -> Amounts:
        """Return the number of services, node ports and load balancers."""
        spec: JsonObject = obj.get("spec") or {}
        ports: Sequence[JsonObject] = spec.get("ports") or ()
        kind, count = spec.get("type"), 0
        if kind == "NodePort":
            count = len(ports)
        elif kind == "LoadBalancer":
            some = spec.get("allocateLoadBalancerNodePorts") is False
            count = sum(bool(port.get("nodePort")) for port in ports) if some else len(ports)
        return {
            "count/services": _ONE,
            "services": _ONE,
            "services.nodeports": Quantity(count),
            "services.loadbalancers": _ONE if kind == "LoadBalancer" else ZERO,
        }


class ClaimEvaluator(Evaluator):
    """Evaluates claims by number and storage, in total and for each storage class."""

    updates = True

    def __init__(self) -> None:
        super().__init__("", "persistentvolumeclaims")
        self.names = frozenset({*self.names, "persistentvolumeclaims", "requests.storage"})

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names, those of single storage classes included."""
        return frozenset(name for name in names if name in self.names or name.endswith(_BY_CLASS))

    def in_scope(self, requirement: JsonObject, obj: JsonObject) -> bool:
        """Return whether the claim is in the scope."""
        if requirement.get("scopeName") != "VolumeAttributesClass":
            return False
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
        names = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target)
        return _selected(requirement, *(name or "" for name in names))

    def usage(self, obj: JsonObject, now: datetime) -> Amounts:
        """Return the number and the storage of a claim, in total and for its class."""
        usage: Amounts = {"count/persistentvolumeclaims": _ONE, "persistentvolumeclaims": _ONE}
        # The larger one of the requested and the allocated storage, in whole bytes.
        requests: JsonValue = ((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}
        allocated: JsonValue = (obj.get("status") or {}).get("allocatedResources") or {}
        sizes = [Quantity(part["storage"]) for part in (requests, allocated) if "storage" in part]
        largest = max(sizes, default=None)
        name, size = class_of(obj), largest if largest is None or largest.whole else Quantity(int(largest))
        if size is not None:
            usage["requests.storage"] = size
        if name:
            usage[f"{name}{_BY_CLASS[1]}"] = _ONE
            if size is not None:
                usage[f"{name}{_BY_CLASS[0]}"] = size
        return usage


class Registry:
    """The evaluators of all resources. The evaluator of a resource that is only counted is created at its first use."""

    def __init__(self) -> None:
        self._special: Mapping[str, Evaluator] = {
            "/pods": PodEvaluator(),
            "/services": ServiceEvaluator(),
            "/persistentvolumeclaims": ClaimEvaluator(),
        }

    def __repr__(self) -> str:
        return f"<Registry with {len(self._special)} evaluators of their own>"

    def of(self, group: str, resource: str) -> Evaluator | None:
        """Return the evaluator of a resource; None if quotas do not measure it."""
        key = f"{group}/{resource}"
        if key in IGNORED:
            return None
        return self._special.get(key) or Evaluator(group, resource)
