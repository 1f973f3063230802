# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Pods: validation, quality of service, graceful deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envtest.kinds.base import TableStrategy
from envtest.kinds.pod_defaults import containers
from envtest.tables.load import Row
from opsdk.api.quantity import Quantity
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.ports import DeleteOptions
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.tree_copy import copy_tree
from opsdk.errors import Cause

_POLICIES = ("Always", "OnFailure", "Never")
_PULL = ("Always", "IfNotPresent", "Never")


def _at(*path: str) -> Any:
    def read(obj: Tree) -> str:
        value: Any = obj
        for part in path:
            value = (value or {}).get(part)
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    return read


def qos_class(spec: Tree) -> str:
    """How well a pod is treated: by whether requests equal limits."""
    amounts = [c.get("resources") or {} for c in containers(spec)]
    if not any(a.get("requests") or a.get("limits") for a in amounts):
        return "BestEffort"
    guaranteed = all(
        all(
            name in (a.get("limits") or {})
            and Quantity((a.get("requests") or a["limits"]).get(name, a["limits"][name])) == Quantity(a["limits"][name])
            for name in ("cpu", "memory")
        )
        for a in amounts
    )
    return "Guaranteed" if guaranteed else "Burstable"


_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)


class PodStrategy(TableStrategy):
    """See the module."""

    graceful = True

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {
            "spec.nodeName": _at("spec", "nodeName"),
            "spec.restartPolicy": _at("spec", "restartPolicy"),
            "spec.schedulerName": _at("spec", "schedulerName"),
            "spec.serviceAccountName": _at("spec", "serviceAccountName"),
            "spec.hostNetwork": lambda obj: str(bool((obj.get("spec") or {}).get("hostNetwork"))).lower(),
            "status.phase": _at("status", "phase"),
            "status.podIP": _at("status", "podIP"),
            "status.podIPs": _at("status", "podIP"),
            "status.nominatedNodeName": _at("status", "nominatedNodeName"),
        }

    def initial_status(self, obj: Tree) -> Tree:
        """Pending."""
        return {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}

    def prepare_for_create(self, context: Context, obj: Tree) -> None:
        """Status, tolerations, priority."""
        super().prepare_for_create(context, obj)
        spec = obj["spec"]
        tolerations = list(spec.get("tolerations") or [])
        for wanted in _TOLERATIONS:
            if not any(_tolerates(t, str(wanted["key"])) for t in tolerations):
                tolerations.append(dict(wanted))
        spec["tolerations"] = tolerations
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:
        """The spec."""
        return list(validate_pod_spec(obj.get("spec") or {}, "spec"))

    def validate_update(self, context: Context, obj: Tree, old: Tree) -> Sequence[Cause]:
        """Only images, deadlines and tolerations change."""
        found = list(self.validate(context, obj))
        if _frozen(obj["spec"], old["spec"]) != _frozen(old["spec"], old["spec"]):
            text = (
                "pod updates may not change fields other than `spec.containers[*].image`,"
                " `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to"
                " existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was"
                " previously negative)"
            )
            found.append(problems.not_allowed("spec", text))
        return found

    def grace(self, obj: Tree, options: DeleteOptions) -> int:
        """What was asked for, else what the pod wants; none where no kubelet would confirm."""
        spec = obj.get("spec") or {}
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        asked = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)
        return max(int(asked), 0) if asked >= 0 else 1


def _tolerates(toleration: Tree, key: str) -> bool:
    if toleration.get("effect") not in (None, "", "NoExecute"):
        return False
    return toleration.get("key", "") in ("", key)


def _frozen(spec: Tree, old: Tree) -> Tree:
    """The parts that may not change."""
    made: Tree = copy_tree(spec)
    for key in ("containers", "initContainers"):
        for container in made.get(key) or ():
            container.pop("image", None)
    for key in ("activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeSelector", "affinity"):
        made.pop(key, None)
    if old.get("terminationGracePeriodSeconds", 0) < 0:
        made.pop("terminationGracePeriodSeconds", None)
    return made


# ------------------------------------------------------------------ validation
def validate_pod_spec(spec: Tree, field: str) -> Iterator[Cause]:
    """What is wrong with a pod spec that stands under `field`."""
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name", "")
        yield from _name(name, f"{field}.volumes[{index}].name", volumes)
        volumes.add(name)
    if not spec.get("containers"):
        yield problems.required(f"{field}.containers")
    seen: set[str] = set()
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            where = f"{field}.{key}[{index}]"
            yield from _name(container.get("name", ""), f"{where}.name", seen)
            seen.add(container.get("name", ""))
            yield from _container(container, where, volumes)
    if spec.get("restartPolicy") not in _POLICIES:
        yield problems.unsupported(f"{field}.restartPolicy", spec.get("restartPolicy", ""), _POLICIES)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        text = "must be between 1 and 2147483647, inclusive"
        yield problems.invalid_value(f"{field}.activeDeadlineSeconds", deadline, text)


def _name(name: str, field: str, seen: set[str]) -> Iterator[Cause]:
    if not name:
        yield problems.required(field)
        return
    for text in names.dns_label(name):
        yield problems.invalid_value(field, name, text)
    if name in seen:
        yield problems.duplicate(field, name)


def _container(container: Tree, field: str, volumes: set[str]) -> Iterator[Cause]:
    image = container.get("image", "")
    if not image:
        yield problems.required(f"{field}.image")
    elif image != image.strip():
        yield problems.invalid_value(f"{field}.image", image, "must not have leading or trailing whitespace")
    if container.get("imagePullPolicy") not in _PULL:
        yield problems.unsupported(f"{field}.imagePullPolicy", container.get("imagePullPolicy"), _PULL)
    yield from _container_ports(container, field)
    yield from _mounts(container, field, volumes)
    yield from _resources(container.get("resources") or {}, f"{field}.resources")


def _container_ports(container: Tree, field: str) -> Iterator[Cause]:
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort", 0)
        if not 1 <= number <= 65535:
            text = "must be between 1 and 65535, inclusive"
            yield problems.invalid_value(f"{field}.ports[{index}].containerPort", number, text)
        if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
            where = f"{field}.ports[{index}].protocol"
            yield problems.unsupported(where, port.get("protocol"), ["SCTP", "TCP", "UDP"])
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield problems.required(f"{field}.env[{index}].name")


def _mounts(container: Tree, field: str, volumes: set[str]) -> Iterator[Cause]:
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{field}.volumeMounts[{index}]"
        if not mount.get("name"):
            yield problems.required(f"{where}.name")
        elif mount["name"] not in volumes:
            text = f"Not found: {problems.quoted(mount['name'])}"
            yield Cause(reason="FieldValueNotFound", message=text, field=f"{where}.name")
        if not mount.get("mountPath"):
            yield problems.required(f"{where}.mountPath")


def _resources(resources: Tree, field: str) -> Iterator[Cause]:
    limits = resources.get("limits") or {}
    for name, amount in sorted((resources.get("requests") or {}).items()):
        if name in limits and Quantity(amount) > Quantity(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            yield problems.invalid_value(f"{field}.requests", amount, text)
