"""Pod garbage collector: delete orphaned, unscheduled terminating and excess terminated pods.

Upstream: pkg/controller/podgc/gc_controller.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from envtest.controllers.controller import ControllerContext, SimulatedController
from envtest.controllers.node_lifecycle import with_disruption_target
from envtest.controllers.objects import age_order, deleting, phase_of, with_status
from envtest.controllers.writes import NODES, PODS, DeleteWrite, UpdateWrite, Writes
from opsdk.aio.clock import monotonic
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

_QUARANTINE = 40.0
"""Seconds from the removal of a node until its pods are deleted: upstream's quarantineTime."""
_MANY = 12_500
"""Maximum finished pods: the default of ``--terminated-pod-gc-threshold``."""


# ------------------------------------------------------------------ core
def collect_orphaned(pod: JsonObject, now: datetime) -> Writes:
    """Return the writes that delete a pod whose node does not exist."""
    phase = {} if phase_of(pod) in ("Succeeded", "Failed") else {"phase": "Failed"}
    update = with_disruption_target(pod, "DeletionByPodGC", "PodGC: node no longer exists", now, **phase)
    return [*([update] if update else []), DeleteWrite(PODS, pod, grace_period_seconds=0)]


def collect_unscheduled(pod: JsonObject) -> Writes:
    """Return the writes that delete a terminating pod that was never scheduled."""
    failed = with_status(pod, {**(pod.get("status") or {}), "phase": "Failed"})
    ended = phase_of(pod) in ("Succeeded", "Failed")
    updates = [] if ended else [UpdateWrite(PODS, failed, "status")]
    held = pod["metadata"].get("finalizers")
    return [*updates, *([] if ended and held else [DeleteWrite(PODS, pod, grace_period_seconds=0)])]


def collect_terminated(finished: Sequence[JsonObject], limit: int = _MANY) -> Writes:
    """Return the deletions of finished pods above the limit, the oldest first."""
    going = sorted(finished, key=age_order)[: max(len(finished) - limit, 0)]
    return [DeleteWrite(PODS, p, grace_period_seconds=0) for p in going]


# ------------------------------------------------------------------ shell
class PodCollector(SimulatedController):
    """``pod-garbage-collector``: keys of pods; the empty key collects finished pods."""

    name = "pod-garbage-collector"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._gone: dict[str, float] = {}
        """When each deleted node was found missing, while it has pods."""
        self._finished = 0

    def restored(self) -> None:
        self._gone.clear()

    def add_event_handlers(self) -> None:
        """Watch pods, and nodes that are deleted."""
        self.informers.add_event_handler(PODS, self._pod)
        self.informers.add_event_handler(NODES, self._node)

    def _pod(self, change: StorageChange) -> None:
        """Queue pods of lost nodes and deleted ones without a node, and all when too many have ended."""
        ended = [o is not None and phase_of(o) in ("Succeeded", "Failed") for o in (change.previous, change.current)]
        self._finished += ended[1] - ended[0]
        if self._finished > _MANY:
            self.queue.add("")
        new = change.current
        if new is None:
            node = change.latest["spec"].get("nodeName")
            if node and not self.informers.pod_keys_of_node(node):
                self._gone.pop(node, None)
            return
        name = new["spec"].get("nodeName")
        lost = bool(name) and self.informers.get(NODES.key("", name)) is None
        if lost or (deleting(new) and not name):
            self.queue.add(change.key)

    def _node(self, change: StorageChange) -> None:
        name = change.latest["metadata"]["name"]
        if change.current is not None:
            self._gone.pop(name, None)
            return
        self.add_pods_of_node(name)

    async def reconcile(self, key: str) -> float | None:
        if not key:
            finished = [p for p in self.informers.all(PODS).values() if phase_of(p) in ("Succeeded", "Failed")]
            await self.write(collect_terminated(finished))
            return None
        pod = self.informers.get(key)
        if pod is None:
            return None
        name = pod["spec"].get("nodeName")
        if not name:
            await self.write(collect_unscheduled(pod) if deleting(pod) else [])
            return None
        if self.informers.get(NODES.key("", name)) is not None:
            return None
        now = monotonic()
        remaining = self._gone.setdefault(name, now) + _QUARANTINE - now
        if remaining > 0:
            return remaining
        await self.write(collect_orphaned(pod, self.context.now()))
        return None
