"""Deployments, replica sets, stateful sets and jobs get what they ask for at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence

from envtest.controllers.cluster import Cluster, controlled_by, deleting, owner_reference
from envtest.controllers.kubelet import is_ready, pods_of
from opsdk.apiserver.storage.ports import Change, Tree
from opsdk.apiserver.tree_copy import copy_tree
from opsdk.errors import AlreadyExistsError

_HASH_LABEL = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS = (
    "apps/deployments",
    "apps/replicasets",
    "apps/statefulsets",
    "batch/jobs",
)
_OWNERS = {"Deployment": DEPLOYMENTS, "ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "Job": JOBS}


class WorkloadController:
    """One handler for the four kinds: a change of an object reconciles it and its controller."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kinds: dict[str, Callable[[Tree], Awaitable[None]]] = {
            DEPLOYMENTS: self._deployment,
            REPLICA_SETS: self._replica_set,
            STATEFUL_SETS: self._stateful_set,
            JOBS: self._job,
        }

    async def handle(self, change: Change) -> None:
        """One change anywhere."""
        obj = change.value
        if obj is None:
            return
        for name, reconcile in self._kinds.items():
            if change.key.startswith(self._cluster.store(name).prefix):
                await self._reconcile(name, obj, reconcile)
        for reference in obj["metadata"].get("ownerReferences") or ():
            name = _OWNERS.get(reference.get("kind", ""), "") if reference.get("controller") else ""
            if name:
                owner = {"metadata": {**obj["metadata"], "name": reference["name"]}}
                await self._reconcile(name, owner, self._kinds[name])

    async def _reconcile(self, name: str, obj: Tree, reconcile: Callable[[Tree], Awaitable[None]]) -> None:
        current = self._cluster.get(name, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if current is not None and not deleting(current):
            await reconcile(current)

    async def _status(self, name: str, obj: Tree, status: Tree) -> None:
        def edit(wanted: Tree) -> None:
            wanted["status"] = {k: v for k, v in status.items() if v not in (0, None) or k == "replicas"}

        await self._cluster.change(self._cluster.store(name), obj, edit)

    # -------------------------------------------------------------- deployments
    async def _deployment(self, obj: Tree) -> None:
        if obj["spec"].get("paused"):
            return
        namespace = obj["metadata"]["namespace"]
        sets = [s for s in self._cluster.list(REPLICA_SETS, namespace) if controlled_by(s, obj)]
        digest = template_hash(obj["spec"]["template"])
        name = f"{obj['metadata']['name']}-{digest}"
        current = next((s for s in sets if s["metadata"]["name"] == name), None)
        if current is None:
            revision = 1 + max((_revision(s) for s in sets), default=0)
            current = await self._create_set(obj, name, digest, revision)
        wanted = obj["spec"].get("replicas", 1)
        for found in [current, *(s for s in sets if s["metadata"]["name"] != name)]:
            await self._scale(found, wanted if found is current else 0)
        await self._deployment_status(obj, current, [*(s for s in sets if s is not current), current])

    async def _create_set(self, obj: Tree, name: str, digest: str, revision: int) -> Tree:
        template = copy_tree(obj["spec"]["template"])
        labels = {**(template.get("metadata") or {}).get("labels", {}), _HASH_LABEL: digest}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector = copy_tree(obj["spec"]["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH_LABEL: digest}
        annotations = {_REVISION: str(revision)}
        made = {
            "kind": "ReplicaSet",
            "apiVersion": "apps/v1",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner_reference(obj)],
            },
            "spec": {"replicas": obj["spec"].get("replicas", 1), "selector": selector, "template": template},
        }

        def note(wanted: Tree) -> None:
            wanted["metadata"]["annotations"] = {**(wanted["metadata"].get("annotations") or {}), **annotations}

        created = await self._cluster.create(REPLICA_SETS, obj["metadata"]["namespace"], made)
        await self._cluster.change(self._cluster.store(DEPLOYMENTS), obj, note)
        return created

    async def _scale(self, found: Tree, replicas: int) -> None:
        if found["spec"].get("replicas") == replicas:
            return

        def edit(wanted: Tree) -> None:
            wanted["spec"]["replicas"] = replicas
            wanted["metadata"]["generation"] = wanted["metadata"].get("generation", 0) + 1

        await self._cluster.change(self._cluster.store(REPLICA_SETS), found, edit)

    async def _deployment_status(self, obj: Tree, current: Tree, sets: Sequence[Tree]) -> None:
        fresh = [self._cluster.get(REPLICA_SETS, s["metadata"]["namespace"], s["metadata"]["name"]) for s in sets]
        counts = [(s.get("status") or {}) for s in fresh if s is not None]
        total, ready = (sum(c.get(k, 0) for c in counts) for k in ("replicas", "readyReplicas"))
        found = self._cluster.get(REPLICA_SETS, current["metadata"]["namespace"], current["metadata"]["name"])
        updated = ((found or {}).get("status") or {}).get("replicas", 0)
        wanted = obj["spec"].get("replicas", 1)
        now = self._cluster.context.timestamp()
        name = current["metadata"]["name"]
        available = ready >= wanted
        complete = available and updated == wanted == total
        reason = "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated"
        words = "has successfully progressed." if complete else "is progressing."
        verb, known = ("has", "Available") if available else ("does not have", "Unavailable")
        text = f"Deployment {verb} minimum availability."
        conditions = [
            _condition("Available", available, f"MinimumReplicas{known}", text, now),
            _condition("Progressing", True, reason, f'ReplicaSet "{name}" {words}', now),
        ]
        await self._status(
            DEPLOYMENTS,
            obj,
            {
                "observedGeneration": obj["metadata"].get("generation", 1),
                "replicas": total,
                "updatedReplicas": updated,
                "readyReplicas": ready,
                "availableReplicas": ready,
                "unavailableReplicas": max(wanted - ready, 0),
                "conditions": _keep_times(conditions, (obj.get("status") or {}).get("conditions") or ()),
            },
        )

    # -------------------------------------------------------------- sets of pods
    async def _replica_set(self, obj: Tree) -> None:
        wanted = obj["spec"].get("replicas", 1)
        live = [p for p in pods_of(self._cluster, obj) if not deleting(p)]
        for _ in range(wanted - len(live)):
            await self._create_pod(obj, {"generateName": f"{obj['metadata']['name']}-"})
        for pod in live[wanted:]:
            await self._cluster.delete(self._cluster.store("/pods"), pod)
        await self._set_status(REPLICA_SETS, obj, {"fullyLabeledReplicas": wanted})

    async def _stateful_set(self, obj: Tree) -> None:
        wanted, name = obj["spec"].get("replicas", 1), obj["metadata"]["name"]
        live = {p["metadata"]["name"]: p for p in pods_of(self._cluster, obj) if not deleting(p)}
        names = [f"{name}-{index}" for index in range(wanted)]
        for pod_name in names:
            if pod_name not in live:
                labels = {"statefulset.kubernetes.io/pod-name": pod_name}
                await self._create_pod(obj, {"name": pod_name}, labels=labels)
        for pod_name, pod in live.items():
            if pod_name not in names:
                await self._cluster.delete(self._cluster.store("/pods"), pod)
        digest = f"{name}-{template_hash(obj['spec']['template'])}"
        revisions = {"currentRevision": digest, "updateRevision": digest, "currentReplicas": wanted}
        await self._set_status(STATEFUL_SETS, obj, {**revisions, "updatedReplicas": wanted, "collisionCount": 0})

    async def _set_status(self, name: str, obj: Tree, more: Tree) -> None:
        live = [p for p in pods_of(self._cluster, obj) if not deleting(p)]
        ready = sum(map(is_ready, live))
        counts = {"replicas": len(live), "readyReplicas": ready, "availableReplicas": ready}
        observed = {"observedGeneration": obj["metadata"].get("generation", 1)}
        await self._status(name, obj, {**counts, **observed, **more})

    async def _create_pod(self, owner: Tree, meta: Tree, *, labels: Tree | None = None) -> None:
        template = owner["spec"]["template"]
        found = template.get("metadata") or {}
        made = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                **meta,
                "labels": {**(found.get("labels") or {}), **(labels or {})},
                "annotations": dict(found.get("annotations") or {}),
                "ownerReferences": [owner_reference(owner)],
            },
            "spec": copy_tree(template["spec"]),
        }
        try:
            await self._cluster.create("/pods", owner["metadata"]["namespace"], made)
        except AlreadyExistsError:
            return

    # -------------------------------------------------------------- jobs
    async def _job(self, obj: Tree) -> None:
        status = obj.get("status") or {}
        if obj["spec"].get("suspend") or any(c["type"] == "Complete" for c in status.get("conditions") or ()):
            return
        wanted = obj["spec"].get("completions") or obj["spec"].get("parallelism", 1)
        pods = pods_of(self._cluster, obj)
        for _ in range(wanted - len(pods)):
            await self._create_pod(obj, {"generateName": f"{obj['metadata']['name']}-"})
        done = sum((p.get("status") or {}).get("phase") == "Succeeded" for p in pods)
        now = self._cluster.context.timestamp()
        made: Tree = {"startTime": status.get("startTime", now), "succeeded": done, "active": max(len(pods) - done, 0)}
        if done >= wanted:
            made["completionTime"] = now
            made["conditions"] = [
                {"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now,
                 "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"}
                for kind in ("SuccessCriteriaMet", "Complete")
            ]  # fmt: skip
        await self._status(JOBS, obj, made)


def template_hash(template: Tree) -> str:
    """A short name for a template, the same for equal ones."""
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return "".join(_ALPHABET[b % len(_ALPHABET)] for b in digest[:10])


def _revision(replica_set: Tree) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(_REVISION, "0"))


def _condition(kind: str, holds: bool, reason: str, message: str, now: str) -> Tree:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _keep_times(new: list[Tree], old: Sequence[Tree]) -> list[Tree]:
    """Times stay where nothing else changes, so that writing a status twice changes nothing."""
    before = {c["type"]: c for c in old}
    made = []
    for condition in new:
        known = before.get(condition["type"], {})
        if known.get("status") == condition["status"]:
            condition["lastTransitionTime"] = known["lastTransitionTime"]
        if {**condition, "lastUpdateTime": ""} == {**known, "lastUpdateTime": ""}:
            condition["lastUpdateTime"] = known["lastUpdateTime"]
        made.append(condition)
    return made
