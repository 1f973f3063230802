"""Warnings about valid but suspicious fields of core objects and pod templates.

Upstream: pkg/api/pod/warnings.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envtest.groups.common.ip_addresses import address_warnings, block_warnings
from envtest.groups.common.pod_spec import containers_at
from envtest.groups.core.validation.service import is_headless
from envtest.groups.core.volume_overlaps import overlap_warnings
from opsdk.apimachinery import validation
from opsdk.apimachinery.quantity import Quantity
from opsdk.apiserver import api_errors
from opsdk.structured_merge.value import JsonObject

OLD_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
"""Deprecated node labels."""
OLD_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
"""Deprecated or removed volume sources."""
_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APPARMOR: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_NULL_SELECTOR: Final = "a null labelSelector results in matching no pod"


def name_warnings(name: str, *, pod: bool = False) -> Iterator[str]:
    """Warn of a name that is not a DNS label."""
    wrong = validation.dns_label(name)
    if wrong:
        where = "the Pod's hostname" if pod else "Pod names and hostnames"
        surprise = "which can result in surprising behavior; a DNS label is recommended"
        yield f"metadata.name: this is used in {where}, {surprise}: [{' '.join(wrong)}]"


def pod_warnings(template: JsonObject, path: str = "") -> Iterator[str]:
    """Warn about a pod, or a template at `path`."""
    spec: JsonObject = template.get("spec") or {}
    notes: Mapping[str, str] = (template.get("metadata") or {}).get("annotations") or {}
    prefix = f"{path}." if path else ""
    root = f"{prefix}spec"
    yield from _node_warnings(spec, root)
    for key, text in _OLD_ANNOTATIONS.items():
        if key in notes:
            yield f"{prefix}metadata.annotations[{key}]: {text}"
    yield from _volume_warnings(spec.get("volumes") or (), f"{root}.volumes")
    yield from overlap_warnings(spec.get("volumes") or ())
    yield from _repeated_warnings(spec, root)
    yield from fraction_warnings(spec.get("overhead") or {}, f"{root}.overhead")
    yield from _profile_warnings(spec, notes, prefix, template=bool(path))
    yield from _port_warnings(spec, root)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        field = f"{root}.terminationGracePeriodSeconds"
        yield f"{field}: must be >= 0; negative values are invalid and will be treated as 1"
    affinity = spec.get("affinity") or {}
    affinity_path = f"{root}.affinity"
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for word, inner in (("required", ""), ("preferred", ".podAffinityTerm")):
            key = f"{word}DuringSchedulingIgnoredDuringExecution"
            for index, term in enumerate(terms.get(key) or ()):
                inner_term = (term.get("podAffinityTerm") or {}) if inner else term
                if inner_term.get("labelSelector") is None:
                    yield f"{affinity_path}.{kind}.{key}[{index}]{inner}.labelSelector: {_NULL_SELECTOR}"
    for index, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from address_warnings(server, f"{root}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address_warnings(alias.get("ip", ""), f"{root}.hostAliases[{index}].ip")


# ------------------------------------------------------------------ placement
def _node_warnings(spec: JsonObject, at: str) -> Iterator[str]:
    """Yield warnings of labels that nodes no longer have, and of missing selectors."""
    for key in sorted(spec.get("nodeSelector") or {}):
        if key in OLD_LABELS:
            yield f"{at}.nodeSelector[{key}]: {OLD_LABELS[key]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    needed, preferred = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
    for index, term in enumerate((affinity.get(needed) or {}).get("nodeSelectorTerms") or ()):
        yield from term_warnings(term, f"{at}.affinity.nodeAffinity.{needed}.nodeSelectorTerms[{index}]")
    for index, weighted in enumerate(affinity.get(preferred) or ()):
        term, where = weighted.get("preference") or {}, f"{at}.affinity.nodeAffinity.{preferred}[{index}].preference"
        yield from term_warnings(term, where)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where = f"{at}.topologySpreadConstraints[{index}]"
        key = constraint.get("topologyKey")
        if key in OLD_LABELS:
            yield f"{where}.topologyKey: {key} is {OLD_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NULL_SELECTOR}"


def term_warnings(term: JsonObject, at: str) -> Iterator[str]:
    """Warn about one node selector term."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key")
        if key in OLD_LABELS:
            yield f"{at}.matchExpressions[{index}].key: {key} is {OLD_LABELS[key]}"
        for number, value in enumerate(expression.get("values") or ()):
            for text in validation.label_value(value):
                yield f"{at}.matchExpressions[{index}].values[{number}]: {value} is invalid, {text}"


# ------------------------------------------------------------------ lists
def _volume_warnings(volumes: Sequence[JsonObject], at: str) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for key, text in OLD_VOLUMES.items():
            if volume.get(key) is not None:
                yield f"{at}[{index}].{key}: {text}"
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim is not None:
            requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
            where = f"{at}[{index}].ephemeral.volumeClaimTemplate.spec.resources.requests"
            yield from storage_warnings(requests, where)


def storage_warnings(requests: Mapping[str, str], at: str) -> Iterator[str]:
    """Warn about the storage request of a claim."""
    yield from fraction_warnings(requests, at, ("storage",))


def _repeated_warnings(spec: JsonObject, at: str) -> Iterator[str]:
    for key, field in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        names: set[str] = set()
        for index, item in enumerate(spec.get(key) or ()):
            value = item.get(field, "")
            if value in names:
                yield f"{at}.{key}[{index}].{field}: duplicate {field} {api_errors.quoted(value)}"
            names.add(value)
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{at}.imagePullSecrets[{index}].name: invalid empty name ""'


def fraction_warnings(
    amounts: Mapping[str, str], at: str, which: Sequence[str] = ("memory", "ephemeral-storage")
) -> Iterator[str]:
    """Warn of quantities with fractions of a byte."""
    for name in which:
        if name in amounts and not Quantity(str(amounts[name])).whole:
            yield f'{at}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


# ------------------------------------------------------------------ containers
def _profile_warnings(spec: JsonObject, notes: Mapping[str, str], prefix: str, *, template: bool) -> Iterator[str]:
    """Yield warnings of annotations for profiles, of fractions of bytes, and of hidden variables."""
    context = spec.get("securityContext") or {}
    key = "seccomp.security.alpha.kubernetes.io/pod"
    if key in notes and context.get("seccompProfile") is None:
        yield f"{prefix}metadata.annotations[{key}]: {_SECCOMP}"
    for container, container_path in containers_at(spec, f"{prefix}spec"):
        own, name = container.get("securityContext") or {}, container.get("name", "")
        key = f"container.seccomp.security.alpha.kubernetes.io/{name}"
        if key in notes and own.get("seccompProfile") is None:
            yield f"{prefix}metadata.annotations[{key}]: {_SECCOMP}"
        key = f"container.apparmor.security.beta.kubernetes.io/{name}"
        if template and key in notes and own.get("appArmorProfile") is None and context.get("appArmorProfile") is None:
            yield f"{prefix}metadata.annotations[{key}]: {_APPARMOR}"
        resources = container.get("resources") or {}
        for which in ("memory", "ephemeral-storage"):
            for kind in ("limits", "requests"):
                yield from fraction_warnings(resources.get(kind) or {}, f"{container_path}.resources.{kind}", (which,))
        variables = container.get("env") or ()
        env_path = f"{container_path}.env"
        names: set[str] = set()
        for index, variable in enumerate(variables):
            name, value = variable.get("name", ""), variable.get("value") or ""
            before = f"$({name})"
            if name in names and (variable.get("valueFrom") is not None or value == before or before not in value):
                text = f'hides previous definition of "{name}", which may be dropped when using apply'
                yield f"{env_path}[{index}]: {text}"
            names.add(name)


def _port_warnings(spec: JsonObject, at: str) -> Iterator[str]:
    """Yield warnings of ports that containers of a pod share."""
    ports: dict[tuple[int, str], list[tuple[JsonObject, str]]] = {}
    for container, path in containers_at(spec, at):
        for index, port in enumerate(container.get("ports") or ()):
            where = f"{path}.ports[{index}]"
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{where}: hostIP set without hostPort: {_go_port(port)}"
            others = ports.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
            for other, there in others:
                ours, theirs = ((p.get("hostIP") or "", p.get("hostPort") or 0) for p in (port, other))
                if ours == theirs:
                    word = "duplicate"
                elif not ours[1] or not theirs[1]:
                    word = "overlapping"
                else:
                    word = "dangerously ambiguous" if ours[1] == theirs[1] and bool(ours[0]) != bool(theirs[0]) else ""
                if word:
                    yield f"{where}: {word} port definition with {there}"
            others.append((port, where))


def _go_port(port: JsonObject) -> str:
    keys = (("Name", "name", ""), ("HostPort", "hostPort", 0), ("ContainerPort", "containerPort", 0),
            ("Protocol", "protocol", ""), ("HostIP", "hostIP", ""))  # fmt: skip
    return "{" + " ".join(f"{label}:{port.get(key, default)}" for label, key, default in keys) + "}"


_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_DRIVERS = ("glusterfs", "cephfs", "rbd", "scaleIO", "storageos", "flocker", "quobyte", "photonPersistentDisk")
_NAMED = frozenset({"deployments", "replicasets", "replicationcontrollers", "jobs", "cronjobs"})


def service_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of Service fields without effect, and of addresses that are not canonical."""
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


def volume_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of deprecated annotations, reclaim policies and drivers of a PersistentVolume."""
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


def claim_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of fractional bytes and the deprecated class annotation."""
    yield from _class_annotation(obj)
    resources = (obj.get("spec") or {}).get("resources") or {}
    for kind in ("requests", "limits"):
        yield from storage_warnings(resources.get(kind) or {}, f"spec.resources.{kind}")


def _class_annotation(obj: JsonObject) -> Iterator[str]:
    if _BETA_CLASS in (obj["metadata"].get("annotations") or {}):
        yield f'metadata.annotations[{_BETA_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead'


def node_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of the deprecated external ID, and of pod CIDRs that are not canonical."""
    spec = obj.get("spec") or {}
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, block in enumerate(spec.get("podCIDRs") or ()):
        yield from block_warnings(block, f"spec.podCIDRs[{index}]")


def account_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn of the deprecated annotation of a ServiceAccount."""
    before = () if old is None else old["metadata"].get("annotations") or ()
    if _MOUNTABLE in (obj["metadata"].get("annotations") or {}) and _MOUNTABLE not in before:
        advice = "prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; {advice}"


def template_warnings(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """Warn about a PodTemplate."""
    yield from pod_warnings(obj.get("template") or {}, "template")


def workload_warnings(
    obj: JsonObject, old: JsonObject | None, *, resource: str, path: str = "spec.template"
) -> Iterator[str]:
    """Warn about the name of a new workload, and about the template of a new or changed one."""
    meta = obj["metadata"]
    if old is not None:
        if meta.get("generation") == old["metadata"].get("generation"):
            return
    elif resource in _NAMED:
        yield from name_warnings(meta.get("name", ""))
    template: JsonObject = obj
    for key in path.split("."):
        template = template.get(key) or {}
    yield from pod_warnings(template, path)
    if resource == "statefulsets" and ((obj.get("spec") or {}).get("revisionHistoryLimit") or 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        )
