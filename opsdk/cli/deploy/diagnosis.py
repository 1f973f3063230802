"""Says why a Deployment is not available: conditions, ReplicaSets, container states. Pure.

Upstream: k8s.io/api/core/v1 types.go (ContainerState), apps/v1 types.go (ReplicaSetReplicaFailure; v1.36)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from opsdk.recipes.summaries import SummaryState, tree_summary
from opsdk.structured_merge.value import JsonObject

# Waiting reasons of a container that starts.
_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_ADVICE: Final = {
    "ErrImagePull": "push the image, pass --image, or load it into the nodes",
    "ImagePullBackOff": "push the image, pass --image, or load it into the nodes",
    "InvalidImageName": "pass a valid name with --image",
    "ErrImageNeverPull": "load the image into the nodes",
    "CreateContainerConfigError": "create the ConfigMap or Secret that the container names",
}
# Characters of a termination message: its end has the error.
_MAX_MESSAGE: Final = 600


def deployment_problems(
    deployment: JsonObject, replica_sets: Sequence[JsonObject], pods: Sequence[JsonObject]
) -> list[str]:
    """Return one string for each reason why a Deployment is not available; equal reasons of several pods count once.

    Args:
        deployment: the live Deployment.
        replica_sets: of its namespace.
        pods: of its namespace.
    """
    name = deployment["metadata"]["name"]
    state = tree_summary(deployment)
    own_sets = [each for each in replica_sets if _is_owned(each, deployment)]
    newest = max(own_sets, key=_revision, default=None)
    reasons = Counter(_set_problems(newest) if newest is not None else ())
    own_pods = [each for each in pods if newest is not None and _is_owned(each, newest)]
    for pod in own_pods:
        reasons.update(set(_pod_problems(pod)))
    head = f"Deployment {name} is not available: {state.message or state.state.value}"
    if not reasons:
        return [head]
    return [head, *(f"{count} pods: {text}" if count > 1 else text for text, count in reasons.items())]


def _set_problems(replica_set: JsonObject) -> Iterator[str]:
    """Yield why pods cannot be created: a quota, an admission plugin, a missing service account."""
    state = tree_summary(replica_set)
    if state.state is SummaryState.FAILED:
        yield f"ReplicaSet {replica_set['metadata']['name']} cannot create pods: {state.message}"


def _pod_problems(pod: JsonObject) -> Iterator[str]:
    status: JsonObject = pod.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    scheduled: JsonObject = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        yield f"not scheduled: {scheduled.get('message') or scheduled.get('reason')}"
    if status.get("phase") == "Failed":
        yield f"failed: {status.get('message') or status.get('reason')}"
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in containers:
        yield from _container_problems(container)
    if status.get("phase", "Pending") == "Pending" and not containers and scheduled.get("status") != "False":
        yield _pending(pod)
    ready: JsonObject = conditions.get("Ready") or {}
    running = containers and all("running" in (each.get("state") or {}) for each in containers)
    if running and ready.get("status") != "True":
        yield "runs, but its readiness probe fails: kubectl logs shows which check of /readyz failed"


def _pending(pod: JsonObject) -> str:
    """Return why a pod is pending of which neither the scheduler nor a kubelet reports a reason."""
    if node := pod["spec"].get("nodeName"):
        return f"pending: the kubelet of node {node} has not started it; kubectl get nodes shows whether it is ready"
    return "pending: no scheduler has assigned it to a node; kubectl get nodes shows whether there are any"


def _container_problems(container: JsonObject) -> Iterator[str]:
    name, state = container["name"], container.get("state") or {}
    waiting: JsonObject = state.get("waiting") or {}
    reason = waiting.get("reason") or ""
    ended: JsonObject = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    if waiting and reason not in _STARTING:
        message = f": {waiting['message']}" if waiting.get("message") else ""
        advice = f" ({_ADVICE[reason]})" if reason in _ADVICE else ""
        yield f"container {name}: {reason}{message}{advice}"
    if ended and ended.get("exitCode"):
        reason_text = f", {ended['reason']}" if ended.get("reason") not in (None, "", "Error") else ""
        text = (ended.get("message") or "").strip()[-_MAX_MESSAGE:]
        yield f"container {name}: ended with exit code {ended['exitCode']}{reason_text}" + (f": {text}" if text else "")


def _is_owned(obj: JsonObject, owner: JsonObject) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(each.get("uid") == owner["metadata"]["uid"] and each.get("controller") for each in references)


def _revision(replica_set: JsonObject) -> int:
    annotations = replica_set["metadata"].get("annotations") or {}
    return int(annotations.get("deployment.kubernetes.io/revision") or 0)


def certificate_problems(configurations: Sequence[JsonObject]) -> list[str]:
    """Return a string for each live webhook configuration or CustomResourceDefinition without a ``caBundle``."""
    problems = []
    for tree in configurations:
        if tree["kind"] == "CustomResourceDefinition":
            webhook = (tree["spec"].get("conversion") or {}).get("webhook") or {}
            clients = {"its conversion": webhook["clientConfig"]} if "clientConfig" in webhook else {}
        else:
            clients = {each["name"]: each["clientConfig"] for each in tree.get("webhooks") or ()}
        lacking = [name for name, client in clients.items() if client.get("service") and not client.get("caBundle")]
        if lacking:
            subject = f"{tree['kind']} {tree['metadata']['name']}"
            problems.append(
                f"{subject} has no caBundle for {', '.join(lacking)}, so the API server cannot call the operator: the "
                "operator sets it when it runs; opsdk doctor checks its permissions"
            )
    return problems
