"""What may change of a pod once it is there, by itself and by its subresources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envtest.kinds import rules
from envtest.kinds.addresses import ip_address
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.tree_copy import copy_tree
from opsdk.errors import Cause

_FROZEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(spec: Tree, old: Tree) -> Iterator[Cause]:
    """Images, a shorter deadline, more tolerations, fewer gates; nothing else."""
    for key in ("containers", "initContainers"):
        now, before = spec.get(key) or [], old.get(key) or []
        if len(now) != len(before):
            yield problems.not_allowed(f"spec.{key}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(now):
            yield from rules.needed(container.get("image"), f"spec.{key}[{index}].image")
    deadline, previous = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if deadline is not None and previous is not None and deadline > previous:
        text = "must be less than or equal to previous value"
        yield problems.invalid_value("spec.activeDeadlineSeconds", deadline, text)
        return
    if deadline is None and previous is not None:
        text = "must not update from a positive integer to nil value"
        yield problems.invalid_value("spec.activeDeadlineSeconds", None, text)
    yield from _only_added(spec.get("tolerations") or [], old.get("tolerations") or [])
    yield from _only_removed(spec.get("schedulingGates") or [], old.get("schedulingGates") or [])
    if _frozen(spec, old) != _frozen(old, old):
        yield problems.not_allowed("spec", _FROZEN)


def _only_added(now: list[Tree], before: list[Tree]) -> Iterator[Cause]:
    """Tolerations stay, apart from how long they last."""

    def bare(toleration: Tree) -> Tree:
        return {k: v for k, v in toleration.items() if k != "tolerationSeconds"}

    there = [bare(t) for t in now]
    if any(bare(t) not in there for t in before):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield problems.not_allowed("spec.tolerations", text)


def _only_removed(now: list[Tree], before: list[Tree]) -> Iterator[Cause]:
    there = {gate.get("name") for gate in before}
    for index, gate in enumerate(now):
        if gate.get("name") not in there:
            text = "only deletion is allowed, but found new scheduling gate '" + str(gate.get("name")) + "'"
            yield problems.not_allowed(f"spec.schedulingGates[{index}].name", text)


def _frozen(spec: Tree, old: Tree) -> Tree:
    """The parts that may not change."""
    made: Tree = copy_tree(spec)
    for key in ("containers", "initContainers"):
        for container in made.get(key) or ():
            container.pop("image", None)
    for key in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        made.pop(key, None)
    if old.get("schedulingGates"):
        _loosen(made, old)
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        made["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return {key: value for key, value in made.items() if value not in (None, [], {})}


def _loosen(spec: Tree, old: Tree) -> None:
    """As long as nobody looks for a node, the search may be narrowed."""
    now, before = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if all(now.get(key) == value for key, value in before.items()):
        spec["nodeSelector"] = before
    if not ((old.get("affinity") or {}).get("nodeAffinity") or {}):
        affinity = {k: v for k, v in (spec.get("affinity") or {}).items() if k != "nodeAffinity"}
        spec["affinity"] = affinity or None


# ------------------------------------------------------------------ status
def validate_pod_status(obj: Tree, old: Tree) -> Iterator[Cause]:
    """What is wrong with a changed status."""
    status, before, spec = obj.get("status") or {}, old.get("status") or {}, old.get("spec") or {}
    node = status.get("nominatedNodeName")
    if node:
        yield from rules.subdomain(node, "status.nominatedNodeName")
    for key, lists in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        yield from _transitions(status.get(lists), before.get(lists), f"status.{lists}", spec, key)
    if before.get("qosClass") and status.get("qosClass") != before["qosClass"]:
        yield problems.invalid_value("status.qosClass", status.get("qosClass", ""), "field is immutable")
    for index, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type", "")
        if kind not in _OWN_CONDITIONS:
            yield from rules.each(names.qualified_name(kind), kind, f"status.conditions[{index}].type")
    for key in ("podIPs", "hostIPs"):
        yield from _addresses([part.get("ip", "") for part in status.get(key) or ()], f"status.{key}")


_OWN_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized", "ContainersReady", "DisruptionTarget"})


def _addresses(found: Sequence[str], path: str) -> Iterator[Cause]:
    for index, address in enumerate(found):
        yield from ip_address(address, f"{path}[{index}]")
    for index, address in enumerate(found):
        if address in found[:index]:
            yield problems.duplicate(f"{path}[{index}]", address)
    if len(found) > 2:
        yield problems.invalid_value(
            path, [{"IP": a} for a in found], "may specify no more than one IP for each IP family"
        )


def _transitions(now: Any, before: Any, path: str, spec: Tree, key: str) -> Iterator[Cause]:
    """What has ended for good does not run again."""
    if spec.get("restartPolicy") == "Always":
        return
    stays = {c["name"] for c in spec.get(key) or () if c.get("restartPolicy") == "Always"}
    found = {s.get("name"): s for s in now or ()}
    for index, status in enumerate(before or ()):
        ended = (status.get("state") or {}).get("terminated")
        new = found.get(status.get("name"))
        if ended is None or new is None or status.get("name") in stays:
            continue
        if ended.get("exitCode", 0) != 0 and spec.get("restartPolicy") == "OnFailure":
            continue
        if (new.get("state") or {}).get("terminated") is None:
            text = "may not be transitioned to non-terminated state"
            yield problems.not_allowed(f"{path}[{index}].state", text)


# ------------------------------------------------------------------ debugging containers
def validate_ephemeral_update(spec: Tree, old: Tree) -> Iterator[Cause]:
    """Debugging containers come, and stay as they came."""
    now = {c.get("name"): c for c in spec.get("ephemeralContainers") or ()}
    for container in old.get("ephemeralContainers") or ():
        name = problems.quoted(container.get("name", ""))
        new = now.get(container.get("name"))
        if new is None:
            text = f"existing ephemeral containers {name} may not be removed\n"
            yield problems.not_allowed("spec.ephemeralContainers", text)
        elif new != container:
            text = f"existing ephemeral containers {name} may not be changed\n"
            yield problems.not_allowed("spec.ephemeralContainers", text)


_RESIZABLE = ("cpu", "memory")


def validate_resize(obj: Tree, old: Tree) -> Iterator[Cause]:
    """Processor and memory of running containers change, and nothing else; the quality of service stays."""
    spec, before = obj["spec"], old["spec"]
    if (old.get("status") or {}).get("qosClass") == "BestEffort":
        yield problems.not_allowed("spec", "pods with BestEffort QoS class cannot be resized")
    same = _without_amounts(spec) == _without_amounts(before)
    if not same:
        yield problems.not_allowed("spec", "only cpu and memory resources are mutable")


def _without_amounts(spec: Tree) -> Tree:
    made: Tree = copy_tree(spec)
    for key in ("containers", "initContainers"):
        for container in made.get(key) or ():
            resources = container.get("resources") or {}
            for kind in ("requests", "limits"):
                kept = {n: a for n, a in (resources.get(kind) or {}).items() if n not in _RESIZABLE}
                resources[kind] = kept
            container["resources"] = {k: v for k, v in resources.items() if v}
    return made
