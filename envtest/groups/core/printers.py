"""Columns of the core group.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from envtest.groups.common.printing import (
    NOTHING,
    UNKNOWN,
    UNSET,
    KindPrinter,
    age,
    condition_of,
    images,
    joined,
    kind_printers,
    label_selector,
    load_balancers,
    meta_of,
    name_of,
    seconds_of,
    since,
    spec_of,
    status_of,
)
from opsdk.structured_merge.value import JsonObject, JsonValue

_ENDED = {
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
}
"""Table row conditions of completed pods."""


class _Tally:
    """The totals of the container statuses of a pod."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.ready = 0
        self.restarts = 0
        self._last = ("", 0.0)

    def restarted(self, container: JsonObject) -> None:
        """Count the restarts of a container, and remember the time of the last."""
        self.restarts += container.get("restartCount", 0)
        stamp = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        moment = seconds_of(stamp) if stamp else None
        if moment is not None and moment > self._last[1]:
            self._last = (stamp, moment)

    def restarts_text(self, now: float) -> str:
        """Return the number of restarts, with the time since the last."""
        stamp = self._last[0]
        return f"{self.restarts} ({since(stamp, now)} ago)" if self.restarts and stamp else str(self.restarts)


def _condition(status: JsonObject, kind: str) -> JsonObject:
    conditions: Sequence[JsonObject] = status.get("conditions") or ()
    return next((c for c in conditions if c.get("type") == kind), {})


def _ended(ended: JsonObject) -> str:
    """Return the reason of a terminated container; without one, its signal or exit code."""
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _init_reason(container: JsonObject, index: int, total: int) -> str:
    """Return the reason that an unfinished init container gives to the pod."""
    state = container.get("state") or {}
    if state.get("terminated") is not None:
        return f"Init:{_ended(state['terminated'])}"
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _initialize(pod: JsonObject, tally: _Tally, sidecars: _Tally, stays: frozenset[str]) -> bool:
    """Visit the init containers. Returns whether one of them still blocks the pod."""
    total = len(spec_of(pod).get("initContainers") or ())
    for index, container in enumerate(status_of(pod).get("initContainerStatuses") or ()):
        tally.restarted(container)
        stays_up = container.get("name") in stays
        if stays_up:
            sidecars.restarted(container)
        ended = (container.get("state") or {}).get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if stays_up and container.get("started"):
            tally.ready += bool(container.get("ready"))
            continue
        tally.reason = _init_reason(container, index, total)
        return True
    return False


def _tally(pod: JsonObject, stays: frozenset[str]) -> _Tally:
    """Return what ``kubectl get pods`` shows of a pod's containers: reason, ready ones, restarts."""
    status = status_of(pod)
    gated = _condition(status, "PodScheduled").get("reason") == "SchedulingGated"
    first = str(status.get("reason") or status.get("phase", ""))
    tally = _Tally("SchedulingGated" if gated else first)
    sidecars = _Tally("")
    held_up = _initialize(pod, tally, sidecars, stays)
    if not held_up or _condition(status, "Initialized").get("status") == "True":
        sidecars.reason, sidecars.ready = tally.reason, tally.ready
        tally = sidecars
        # The first container with a reason determines the reason of the pod.
        running = False
        for container in reversed(status.get("containerStatuses") or ()):
            tally.restarted(container)
            state = container.get("state") or {}
            waiting = (state.get("waiting") or {}).get("reason")
            if waiting:
                tally.reason = waiting
            elif state.get("terminated") is not None:
                tally.reason = _ended(state["terminated"])
            elif container.get("ready") and state.get("running") is not None:
                running = True
                tally.ready += 1
        if tally.reason == "Completed" and running:
            tally.reason = "Running" if _condition(status, "Ready").get("status") == "True" else "NotReady"
    if meta_of(pod).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            tally.reason = "Unknown"
        elif status.get("phase") not in _ENDED:
            tally.reason = "Terminating"
    return tally


def _pod(obj: JsonObject, now: float) -> list[JsonValue]:
    """Return the cells of a Pod."""
    spec, status = spec_of(obj), status_of(obj)
    inits: Sequence[JsonObject] = spec.get("initContainers") or ()
    stays = frozenset(c["name"] for c in inits if c.get("restartPolicy") == "Always")
    tally = _tally(obj, stays)
    gates = spec_of(obj).get("readinessGates") or ()
    pod_status = status_of(obj)
    true = sum(_condition(pod_status, g.get("conditionType", "")).get("status") == "True" for g in gates)
    return [
        name_of(obj),
        f"{tally.ready}/{len(spec.get('containers') or ()) + len(stays)}",
        tally.reason,
        tally.restarts_text(now),
        age(obj, now),
        next((a.get("ip") for a in status.get("podIPs") or ()), None) or NOTHING,
        spec.get("nodeName") or NOTHING,
        status.get("nominatedNodeName") or NOTHING,
        f"{true}/{len(gates)}" if gates else NOTHING,
    ]


def _pod_conditions(obj: JsonObject) -> Sequence[JsonObject]:
    ended = _ENDED.get(status_of(obj).get("phase", ""))
    return () if ended is None else (ended,)


def _pod_template(obj: JsonObject, now: float) -> list[JsonValue]:
    template = obj.get("template") or {}
    return [name_of(obj), *images(template), label_selector(meta_of(template).get("labels"))]


def replica_set(obj: JsonObject, now: float) -> list[JsonValue]:
    """Return the cells of ReplicaSets and ReplicationControllers."""
    spec, status = spec_of(obj), status_of(obj)
    return [
        name_of(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *images(spec.get("template") or {}),
        label_selector(spec.get("selector")),
    ]


# ------------------------------------------------------------------ configuration


def _external(obj: JsonObject) -> str:
    spec = spec_of(obj)
    addresses = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(addresses) or NOTHING
        case "LoadBalancer":
            return ",".join([*load_balancers(obj), *addresses]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


def _port(port: JsonObject) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol')}"


def _service(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    return [
        name_of(obj),
        spec.get("type", ""),
        next(iter(spec.get("clusterIPs") or ()), None) or NOTHING,
        _external(obj),
        ",".join(map(_port, spec.get("ports") or ())) or NOTHING,
        age(obj, now),
        label_selector(spec.get("selector")),
    ]


# ------------------------------------------------------------------ endpoints
def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _subset_places(obj: JsonObject) -> Iterator[str]:
    for subset in obj.get("subsets") or ():
        addresses = [a.get("ip", "") for a in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            # Endpoints of a headless service may have no ports.
            yield from addresses
        for port in ports:
            yield from (_host_port(a, port.get("port", 0)) for a in addresses)


def _endpoints(obj: JsonObject, now: float) -> list[JsonValue]:
    places = joined(_subset_places(obj)) if obj.get("subsets") else NOTHING
    return [name_of(obj), places, age(obj, now)]


# ------------------------------------------------------------------ nodes
_ROLE = "node-role.kubernetes.io/"


def _node(obj: JsonObject, now: float) -> list[JsonValue]:
    """Return the cells of a Node."""
    status = status_of(obj)
    ready = condition_of(obj, "Ready")
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec_of(obj).get("unschedulable"):
        word += ",SchedulingDisabled"
    info = status.get("nodeInfo") or {}
    built_for = f" ({info['architecture']})" if info.get("architecture") else ""
    places: dict[str, str] = {}
    for address in status.get("addresses") or ():
        places.setdefault(address.get("type", ""), address.get("address", ""))
    roles = set()
    for key, value in (meta_of(obj).get("labels") or {}).items():
        role = key.removeprefix(_ROLE) if key.startswith(_ROLE) else value if key == "kubernetes.io/role" else ""
        roles.add(role)
    return [
        name_of(obj),
        word,
        (",".join(sorted(roles - {""})) or NOTHING),
        age(obj, now),
        info.get("kubeletVersion", ""),
        *(places.get(kind) or NOTHING for kind in ("InternalIP", "ExternalIP")),
        info.get("osImage") or UNKNOWN,
        (info.get("kernelVersion") or UNKNOWN) + built_for,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _component(obj: JsonObject, now: float) -> list[JsonValue]:
    healthy = next((c for c in obj.get("conditions") or () if c.get("type") == "Healthy"), None)
    if healthy is None:
        return [name_of(obj), "Unknown", "", ""]
    word = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_of(obj), word, healthy.get("message", ""), healthy.get("error", "")]


# ------------------------------------------------------------------ events
def event(obj: JsonObject, now: float) -> list[JsonValue]:
    """Return the cells of Events of both APIs."""
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


# ------------------------------------------------------------------ quantities
def _quota(obj: JsonObject, now: float) -> list[JsonValue]:
    status = status_of(obj)
    used: JsonObject = status.get("used") or {}
    columns: dict[bool, list[str]] = {False: [], True: []}
    for name, most in sorted((status.get("hard") or {}).items()):
        columns[name.startswith("limits.")].append(f"{name}: {used.get(name, 0)}/{most}")
    return [name_of(obj), ", ".join(columns[False]), ", ".join(columns[True]), age(obj, now)]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def _modes(modes: Iterable[str] | None) -> str:
    unique_modes = set(modes or ())
    return ",".join(short for long, short in _MODES.items() if long in unique_modes)


def _class(obj: JsonObject) -> str:
    notes = meta_of(obj).get("annotations") or {}
    return str(notes.get(_OLD_CLASS) or spec_of(obj).get("storageClassName") or "")


def _phase(obj: JsonObject) -> str:
    return "Terminating" if meta_of(obj).get("deletionTimestamp") else str(status_of(obj).get("phase", ""))


def _value_or_unset(value: JsonValue) -> JsonValue:
    return UNSET if value is None else value


def _claim(obj: JsonObject, now: float) -> list[JsonValue]:
    spec, status = spec_of(obj), status_of(obj)
    volume = spec.get("volumeName") or ""
    return [
        name_of(obj),
        _phase(obj),
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        _class(obj),
        _value_or_unset(spec.get("volumeAttributesClassName")),
        age(obj, now),
        _value_or_unset(spec.get("volumeMode")),
    ]


def _volume(obj: JsonObject, now: float) -> list[JsonValue]:
    """Return the cells of a PersistentVolume."""
    spec = spec_of(obj)
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        _class(obj),
        _value_or_unset(spec.get("volumeAttributesClassName")),
        status_of(obj).get("reason", ""),
        age(obj, now),
        _value_or_unset(spec.get("volumeMode")),
    ]


PRINTERS: Mapping[str, KindPrinter] = {
    **kind_printers(
        {
            "/podtemplates": _pod_template,
            "/namespaces": lambda obj, now: [name_of(obj), status_of(obj).get("phase", ""), age(obj, now)],
            "/configmaps": lambda obj, now: [
                name_of(obj),
                len(obj.get("data") or {}) + len(obj.get("binaryData") or {}),
                age(obj, now),
            ],
            "/secrets": lambda obj, now: [name_of(obj), obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)],
            "/serviceaccounts": lambda obj, now: [name_of(obj), len(obj.get("secrets") or []), age(obj, now)],
            "/replicationcontrollers": replica_set,
            "/services": _service,
            "/endpoints": _endpoints,
            "/nodes": _node,
            "/componentstatuses": _component,
            "/events": event,
            "/resourcequotas": _quota,
            "/persistentvolumeclaims": _claim,
            "/persistentvolumes": _volume,
        }
    ),
    "/pods": KindPrinter("/pods", _pod, conditions=_pod_conditions),
}
"""By ``group/resource``."""
