"""Pods are scheduled, run and become ready at once; deleted ones are confirmed at once."""

from __future__ import annotations

from collections.abc import Callable

from envtest.controllers.cluster import Cluster, controlled_by, deleting
from opsdk.apiserver.registry.ports import DeleteOptions
from opsdk.apiserver.storage.ports import Change, Kind, Tree

NODE = "envtest-node"
"""Where every pod runs; there is no Node object."""


class Kubelet:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._addresses = 0

    async def handle(self, change: Change) -> None:
        """One change anywhere."""
        pods = self._cluster.store("/pods")
        if not change.key.startswith(pods.prefix) or change.kind is Kind.DELETE:
            return
        pod = self._cluster.at(change.key)
        if pod is None:
            return
        if deleting(pod):
            if pod["metadata"].get("deletionGracePeriodSeconds"):
                await self._cluster.delete(pods, pod, DeleteOptions(grace=0))
            return
        if (pod.get("status") or {}).get("phase") == "Pending" and not pod["spec"].get("schedulingGates"):
            await self._cluster.change(pods, pod, self._run(pod))

    def _run(self, pod: Tree) -> Callable[[Tree], None]:
        self._addresses += 1
        address = f"10.244.{self._addresses // 250}.{self._addresses % 250 + 1}"
        now = self._cluster.context.timestamp()
        # Work that ends is taken to end well, in an instant.
        done = any(r.get("kind") == "Job" for r in pod["metadata"].get("ownerReferences") or ())

        def edit(wanted: Tree) -> None:
            wanted["spec"].setdefault("nodeName", NODE)
            wanted["status"] = {**(wanted.get("status") or {}), **running(wanted, address, now, done=done)}

        return edit


def running(pod: Tree, address: str, now: str, *, done: bool) -> Tree:
    """The status of a pod that runs, or has run."""
    state = (
        {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
        if done
        else {"running": {"startedAt": now}}
    )
    containers = [
        {
            "name": c["name"],
            "image": c.get("image", ""),
            "imageID": c.get("image", ""),
            "containerID": f"envtest://{pod['metadata']['uid']}/{c['name']}",
            "ready": not done,
            "started": not done,
            "restartCount": 0,
            "lastState": {},
            "state": state,
        }
        for c in pod["spec"].get("containers") or ()
    ]
    ready = "False" if done else "True"
    values = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
    return {
        "phase": "Succeeded" if done else "Running",
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": [
            {"type": t, "status": s, "lastProbeTime": None, "lastTransitionTime": now} for t, s in values.items()
        ],
        "containerStatuses": containers,
    }


def is_ready(pod: Tree) -> bool:
    """Whether a pod is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def pods_of(cluster: Cluster, owner: Tree) -> list[Tree]:
    """The pods that an owner controls."""
    pods = cluster.list("/pods", owner["metadata"].get("namespace", ""))
    return [p for p in pods if controlled_by(p, owner)]
