"""Columns of pods and their templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envtest.kinds.printing import (
    NOTHING,
    KindPrinter,
    age,
    label_selector,
    meta_of,
    name_of,
    seconds_of,
    since,
    spec_of,
    status_of,
)
from opsdk.apiserver.resources import Printer
from opsdk.structured_merge.value import JsonObject

_ENDED = {
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
}
"""What is said of rows of pods that have run their course."""


class _Tally:
    """What the statuses of containers add up to, as they are gone through."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.ready = 0
        self.restarts = 0
        self._last = ("", 0.0)

    def restarted(self, container: JsonObject) -> None:
        """Count the restarts of a container, and remember the last."""
        self.restarts += container.get("restartCount", 0)
        stamp = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        moment = seconds_of(stamp) if stamp else None
        if moment is not None and moment > self._last[1]:
            self._last = (stamp, moment)

    def restarts_text(self, now: float) -> str:
        """How many, and when."""
        stamp = self._last[0]
        return f"{self.restarts} ({since(stamp, now)} ago)" if self.restarts and stamp else str(self.restarts)


def _condition(status: JsonObject, kind: str) -> JsonObject:
    found: Sequence[JsonObject] = status.get("conditions") or ()
    return next((c for c in found if c.get("type") == kind), {})


def _ended(ended: JsonObject) -> str:
    """The reason why a container has ended, or else how."""
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _init_reason(container: JsonObject, index: int, total: int) -> str:
    """What an init container that is not through says of the pod."""
    state = container.get("state") or {}
    if state.get("terminated") is not None:
        return f"Init:{_ended(state['terminated'])}"
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _initialize(pod: JsonObject, tally: _Tally, sidecars: _Tally, stays: frozenset[str]) -> bool:
    """Go through the init containers; whether one of them still holds the pod up."""
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


def _run(status: JsonObject, tally: _Tally) -> None:
    """Go through the containers; the first that has something to say is heard."""
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


def _tally(pod: JsonObject, stays: frozenset[str]) -> _Tally:
    status = status_of(pod)
    gated = _condition(status, "PodScheduled").get("reason") == "SchedulingGated"
    first = str(status.get("reason") or status.get("phase", ""))
    tally = _Tally("SchedulingGated" if gated else first)
    sidecars = _Tally("")
    held_up = _initialize(pod, tally, sidecars, stays)
    if not held_up or _condition(status, "Initialized").get("status") == "True":
        sidecars.reason, sidecars.ready = tally.reason, tally.ready
        tally = sidecars
        _run(status, tally)
    if meta_of(pod).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            tally.reason = "Unknown"
        elif status.get("phase") not in _ENDED:
            tally.reason = "Terminating"
    return tally


def _gates(pod: JsonObject) -> str:
    gates = spec_of(pod).get("readinessGates") or ()
    status = status_of(pod)
    true = sum(_condition(status, g.get("conditionType", "")).get("status") == "True" for g in gates)
    return f"{true}/{len(gates)}" if gates else NOTHING


def _pod(obj: JsonObject, now: float) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    inits: Sequence[JsonObject] = spec.get("initContainers") or ()
    stays = frozenset(c["name"] for c in inits if c.get("restartPolicy") == "Always")
    tally = _tally(obj, stays)
    return [
        name_of(obj),
        f"{tally.ready}/{len(spec.get('containers') or ()) + len(stays)}",
        tally.reason,
        tally.restarts_text(now),
        age(obj, now),
        next((a.get("ip") for a in status.get("podIPs") or ()), None) or NOTHING,
        spec.get("nodeName") or NOTHING,
        status.get("nominatedNodeName") or NOTHING,
        _gates(obj),
    ]


def _pod_conditions(obj: JsonObject) -> Sequence[JsonObject]:
    ended = _ENDED.get(status_of(obj).get("phase", ""))
    return () if ended is None else (ended,)


def _pod_template(obj: JsonObject, now: float) -> list[Any]:  # noqa: ARG001 - the shape of Cells
    template = obj.get("template") or {}
    return [name_of(obj), *images(template), label_selector(meta_of(template).get("labels"))]


def images(template: JsonObject) -> list[str]:
    """The names of the containers of a template, and their images."""
    found = spec_of(template).get("containers") or ()
    return [",".join(c.get(key, "") for c in found) for key in ("name", "image")]


PRINTERS: dict[str, Printer] = {
    "/pods": KindPrinter("/pods", _pod, conditions=_pod_conditions),
    "/podtemplates": KindPrinter("/podtemplates", _pod_template),
}
"""By ``group/resource``."""
