"""What makers of services, volumes, ingresses and classes should know."""

from __future__ import annotations

from collections.abc import Iterator

from envtest.kinds.addresses import address_warnings, block_warnings
from envtest.kinds.pod_warnings import (
    OLD_LABELS,
    OLD_VOLUMES,
    name_warnings,
    pod_warnings,
    storage_warnings,
    term_warnings,
)
from envtest.kinds.service_rules import is_headless
from opsdk.structured_merge.value import JsonObject

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_DRIVERS = ("glusterfs", "cephfs", "rbd", "scaleIO", "storageos", "flocker", "quobyte", "photonPersistentDisk")
_NAMED = frozenset({"deployments", "replicasets", "replicationcontrollers", "jobs", "cronjobs"})


def service_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Fields that count for nothing, and addresses in odd forms."""
    spec: JsonObject = obj.get("spec") or {}
    if old is not None and (old.get("spec") or {}) == spec:
        return
    if _HINTS in (obj["metadata"].get("annotations") or {}):
        yield f"annotation {_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        yield from address_warnings(address, f"spec.clusterIPs[{index}]")
    if is_headless(spec):
        yield from _headless_warnings(spec)
    if spec.get("externalIPs"):
        yield "spec.externalIPs is deprecated"
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from address_warnings(address, f"spec.externalIPs[{index}]")
    yield from _balancer_warnings(spec)
    external = spec.get("type") == "ExternalName"
    if external and spec.get("externalIPs"):
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if not external and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _balancer_warnings(spec: JsonObject) -> Iterator[str]:
    if spec.get("loadBalancerIP"):
        yield from address_warnings(spec["loadBalancerIP"], "spec.loadBalancerIP")
    for index, block in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from block_warnings(block.strip(), f"spec.loadBalancerSourceRanges[{index}]")


def _headless_warnings(spec: JsonObject) -> Iterator[str]:
    for key in ("loadBalancerIP", "externalIPs"):
        if spec.get(key):
            yield f"spec.{key} is ignored for headless services"
    if spec.get("sessionAffinity", "None") != "None":
        yield "spec.SessionAffinity is ignored for headless services"


def network_policy_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Blocks of addresses."""
    spec = obj.get("spec") or {}
    if old is not None and (old.get("spec") or {}) == spec:
        return
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            for number, peer in enumerate(rule.get(peers) or ()):
                block, at = peer.get("ipBlock") or {}, f"spec.{direction}[{index}].{peers}[{number}].ipBlock"
                yield from block_warnings(block.get("cidr", ""), f"{at}.cidr")
                for inner, part in enumerate(block.get("except") or ()):
                    yield from block_warnings(part, f"{at}.except[{inner}]")


def ingress_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """The annotation that was there before the field."""
    if old is None and _INGRESS_CLASS in (obj["metadata"].get("annotations") or {}):
        yield f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


def volume_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:  # noqa: ARG001 - one shape for all
    """Persistent volumes: annotations, policies and drivers that had their time."""
    spec, notes = obj.get("spec") or {}, obj["metadata"].get("annotations") or {}
    yield from _class_annotation(obj)
    if _MOUNT_OPTIONS in notes:
        yield f'metadata.annotations[{_MOUNT_OPTIONS}]: deprecated since v1.31; use "mountOptions" attribute instead'
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for index, term in enumerate(terms):
        yield from term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        advice = "Instead, the recommended approach is to use dynamic provisioning."
        yield f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {advice}"
    for key in _DRIVERS:
        if spec.get(key) is not None:
            yield f"spec.{key}: {OLD_VOLUMES[key]}"


def claim_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:  # noqa: ARG001 - one shape for all
    """Parts of bytes, and the annotation that was there before the field."""
    yield from _class_annotation(obj)
    resources = (obj.get("spec") or {}).get("resources") or {}
    for kind in ("requests", "limits"):
        yield from storage_warnings(resources.get(kind) or {}, f"spec.resources.{kind}")


def _class_annotation(obj: JsonObject) -> Iterator[str]:
    if _BETA_CLASS in (obj["metadata"].get("annotations") or {}):
        yield f'metadata.annotations[{_BETA_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead'


def node_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:  # noqa: ARG001 - one shape for all
    """Nodes: an identity that nobody asks for, and their blocks of addresses."""
    spec = obj.get("spec") or {}
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, block in enumerate(spec.get("podCIDRs") or ()):
        yield from block_warnings(block, f"spec.podCIDRs[{index}]")


def class_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:  # noqa: ARG001 - one shape for all
    """Storage classes: labels of nodes."""
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            if expression.get("key") in OLD_LABELS:
                at = f"allowedTopologies[{index}].matchLabelExpressions[{number}].key"
                yield f"{at}: {OLD_LABELS[expression['key']]}"


def runtime_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:  # noqa: ARG001 - one shape for all
    """Runtime classes: labels of nodes."""
    for key in sorted((obj.get("scheduling") or {}).get("nodeSelector") or {}):
        if key in OLD_LABELS:
            yield f"scheduling.nodeSelector[{key}]: {OLD_LABELS[key]}"


def account_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Service accounts: an annotation."""
    before = () if old is None else old["metadata"].get("annotations") or ()
    if _MOUNTABLE in (obj["metadata"].get("annotations") or {}) and _MOUNTABLE not in before:
        advice = "prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; {advice}"


def template_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:  # noqa: ARG001 - one shape for all
    """Pod templates by themselves."""
    yield from pod_warnings(obj.get("template") or {}, "template")


def workload_warnings(
    obj: JsonObject, old: JsonObject | None, *, resource: str, path: str = "spec.template"
) -> Iterator[str]:
    """Workloads: their names, and their templates where the wish has changed."""
    meta = obj["metadata"]
    if old is not None:
        if meta.get("generation") == old["metadata"].get("generation"):
            return
    elif resource in _NAMED:
        yield from name_warnings(meta.get("name", ""))
    found: JsonObject = obj
    for key in path.split("."):
        found = found.get(key) or {}
    yield from pod_warnings(found, path)
    if resource == "statefulsets" and ((obj.get("spec") or {}).get("revisionHistoryLimit") or 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        )
