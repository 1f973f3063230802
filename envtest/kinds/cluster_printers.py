"""Columns of nodes, events, and what rules a cluster: quotas, budgets, priorities, certificates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envtest.kinds.autoscaler_versions import to_new
from envtest.kinds.printing import (
    NOTHING,
    UNKNOWN,
    UNSET,
    KindPrinter,
    age,
    human,
    meta_of,
    name_of,
    since,
    spec_of,
    status_of,
)
from opsdk.apiserver.resources import Printer
from opsdk.structured_merge.value import JsonObject


def _condition(obj: JsonObject, kind: str) -> JsonObject | None:
    found: Sequence[JsonObject] = status_of(obj).get("conditions") or ()
    return next((c for c in found if c.get("type") == kind), None)


# ------------------------------------------------------------------ nodes
_ROLE = "node-role.kubernetes.io/"


def _roles(obj: JsonObject) -> str:
    found = set()
    for key, value in (meta_of(obj).get("labels") or {}).items():
        role = key.removeprefix(_ROLE) if key.startswith(_ROLE) else value if key == "kubernetes.io/role" else ""
        found.add(role)
    return ",".join(sorted(found - {""})) or NOTHING


def _node(obj: JsonObject, now: float) -> list[Any]:
    status = status_of(obj)
    ready = _condition(obj, "Ready")
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec_of(obj).get("unschedulable"):
        word += ",SchedulingDisabled"
    info = status.get("nodeInfo") or {}
    built_for = f" ({info['architecture']})" if info.get("architecture") else ""
    places: dict[str, str] = {}
    for address in status.get("addresses") or ():
        places.setdefault(address.get("type", ""), address.get("address", ""))
    return [
        name_of(obj),
        word,
        _roles(obj),
        age(obj, now),
        info.get("kubeletVersion", ""),
        *(places.get(kind) or NOTHING for kind in ("InternalIP", "ExternalIP")),
        info.get("osImage") or UNKNOWN,
        (info.get("kernelVersion") or UNKNOWN) + built_for,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _component(obj: JsonObject, now: float) -> list[Any]:  # noqa: ARG001 - the shape of Cells
    healthy = next((c for c in obj.get("conditions") or () if c.get("type") == "Healthy"), None)
    if healthy is None:
        return [name_of(obj), "Unknown", "", ""]
    word = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_of(obj), word, healthy.get("message", ""), healthy.get("error", "")]


# ------------------------------------------------------------------ events
def _event(obj: JsonObject, now: float) -> list[Any]:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series = obj.get("series")
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime") or ""
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    times = obj.get("count") or obj.get("deprecatedCount") or 1
    if series is not None:
        last, times = series.get("lastObservedTime") or "", series.get("count", 0)
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController", "")
    host = source.get("host") or obj.get("reportingInstance")
    kind = str(about.get("kind", "")).lower()
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        str(obj.get("message") or obj.get("note", "")).strip(),
        since(first, now),
        times,
        name_of(obj),
    ]


# ------------------------------------------------------------------ amounts
def _quota(obj: JsonObject, now: float) -> list[Any]:
    status = status_of(obj)
    used: JsonObject = status.get("used") or {}
    shown: dict[bool, list[str]] = {False: [], True: []}
    for name, most in sorted((status.get("hard") or {}).items()):
        shown[name.startswith("limits.")].append(f"{name}: {used.get(name, 0)}/{most}")
    return [name_of(obj), ", ".join(shown[False]), ", ".join(shown[True]), age(obj, now)]


def _budget(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    bounds = ("N/A" if spec.get(k) is None else str(spec[k]) for k in ("minAvailable", "maxUnavailable"))
    return [name_of(obj), *bounds, status_of(obj).get("disruptionsAllowed", 0), age(obj, now)]


def _priority(obj: JsonObject, now: float) -> list[Any]:
    default, policy = bool(obj.get("globalDefault")), obj.get("preemptionPolicy", "")
    return [name_of(obj), obj.get("value", 0), default, age(obj, now), policy]


_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_NIL = "<nil>"


def _metric(spec: JsonObject, status: JsonObject) -> str:
    """What a metric is, and what it should be."""
    key = _SOURCES.get(spec.get("type", ""))
    if key is None:
        return "<unknown type>"
    about, reported = spec.get(key) or {}, status.get(key)
    target, current = about.get("target") or {}, (reported or {}).get("current") or {}
    average = target.get("averageValue")

    def value(name: str) -> str:
        """Nothing reported is not the same as a report without it."""
        return UNKNOWN if reported is None else str(current.get(name, _NIL))

    if "name" in about:
        if average is not None:
            return f"{about['name']}: {value('averageValue')}/{average}"
        used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        shown = UNKNOWN if used is None else f"{used}%"
        return f"{about['name']}: {shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if key == "pods":
        return f"{value('averageValue')}/{target.get('averageValue', _NIL)}"
    if average is not None:
        return f"{current.get('averageValue', UNKNOWN)}/{average} (avg)"
    return f"{value('value')}/{target.get('value', _NIL)}"


def _metrics(specs: Sequence[JsonObject], statuses: Sequence[JsonObject]) -> str:
    shown = [_metric(spec, statuses[i] if i < len(statuses) else {}) for i, spec in enumerate(specs)]
    more = f" + {len(shown) - 2} more..." if len(shown) > 2 else ""
    return ", ".join(shown[:2]) + more if shown else NOTHING


def _autoscaler(obj: JsonObject, now: float) -> list[Any]:
    new = to_new(obj) if obj.get("apiVersion") == "autoscaling/v1" else obj
    spec, status = spec_of(new), status_of(new)
    ref = spec.get("scaleTargetRef") or {}
    return [
        name_of(new),
        f"{ref.get('kind', '')}/{ref.get('name', '')}",
        _metrics(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        str(spec.get("minReplicas", UNSET)),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(new, now),
    ]


# ------------------------------------------------------------------ flow control
def _flow_schema(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    return [
        name_of(obj),
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        NOTHING if spec.get("distinguisherMethod") is None else spec["distinguisherMethod"].get("type", ""),
        age(obj, now),
        (_condition(obj, "Dangling") or {}).get("status", "?"),
    ]


def _precedence(obj: JsonObject) -> tuple[int, str]:
    return spec_of(obj).get("matchingPrecedence", 0), name_of(obj)


def _priority_level(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    limited = spec.get("limited") or {}
    queues = (limited.get("limitResponse") or {}).get("queuing") or {}
    return [
        name_of(obj),
        spec.get("type", ""),
        limited.get("nominalConcurrencyShares", NOTHING),
        *(queues.get(key, NOTHING) for key in ("queues", "handSize", "queueLengthLimit")),
        age(obj, now),
    ]


# ------------------------------------------------------------------ the rest
def _runtime(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), obj.get("handler", ""), age(obj, now)]


def _request_states(obj: JsonObject) -> Iterator[str]:
    given = {c.get("type") for c in status_of(obj).get("conditions") or ()}
    yield "Denied" if "Denied" in given else "Approved" if "Approved" in given else "Pending"
    if "Failed" in given:
        yield "Failed"
    if status_of(obj).get("certificate"):
        yield "Issued"


def _signing_request(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    seconds = spec.get("expirationSeconds")
    return [
        name_of(obj),
        age(obj, now),
        spec.get("signerName") or NOTHING,
        spec.get("username", ""),
        NOTHING if seconds is None else human(seconds),
        ",".join(_request_states(obj)),
    ]


def _api_service(obj: JsonObject, now: float) -> list[Any]:
    service = spec_of(obj).get("service")
    where = "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"
    found = _condition(obj, "Available") or {}
    word = found.get("status", "Unknown")
    if word != "True" and found.get("reason"):
        word = f"{word} ({found['reason']})"
    return [name_of(obj), where, word, age(obj, now)]


def _claim_states(obj: JsonObject) -> Iterator[str]:
    status = status_of(obj)
    if meta_of(obj).get("deletionTimestamp"):
        yield "deleted"
    if status.get("allocation") is None:
        if not meta_of(obj).get("deletionTimestamp"):
            yield "pending"
        return
    yield "allocated"
    if status.get("reservedFor"):
        yield "reserved"


def _device_claim(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), ",".join(_claim_states(obj)), age(obj, now)]


def _device_slice(obj: JsonObject, now: float) -> list[Any]:
    spec = spec_of(obj)
    pool = (spec.get("pool") or {}).get("name", "")
    return [name_of(obj), spec.get("nodeName") or UNSET, spec.get("driver", ""), pool, age(obj, now)]


def _aged(obj: JsonObject, now: float) -> list[Any]:
    return [name_of(obj), age(obj, now)]


_FLOW = "flowcontrol.apiserver.k8s.io"
_DEVICES = "resource.k8s.io"

PRINTERS: dict[str, Printer] = {
    key: KindPrinter(key, cells)
    for key, cells in {
        "/nodes": _node,
        "/componentstatuses": _component,
        "/events": _event,
        "events.k8s.io/events": _event,
        "/resourcequotas": _quota,
        "policy/poddisruptionbudgets": _budget,
        "scheduling.k8s.io/priorityclasses": _priority,
        "autoscaling/horizontalpodautoscalers": _autoscaler,
        f"{_FLOW}/prioritylevelconfigurations": _priority_level,
        "node.k8s.io/runtimeclasses": _runtime,
        "certificates.k8s.io/certificatesigningrequests": _signing_request,
        "apiregistration.k8s.io/apiservices": _api_service,
        f"{_DEVICES}/resourceclaims": _device_claim,
        f"{_DEVICES}/resourceclaimtemplates": _aged,
        f"{_DEVICES}/deviceclasses": _aged,
        f"{_DEVICES}/resourceslices": _device_slice,
    }.items()
}
PRINTERS[f"{_FLOW}/flowschemas"] = KindPrinter(f"{_FLOW}/flowschemas", _flow_schema, order=_precedence)
"""By ``group/resource``."""
