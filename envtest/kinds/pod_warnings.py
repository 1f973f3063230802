"""What makers of pods and of pod templates should know: allowed, and probably not meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envtest.kinds.addresses import address_warnings
from envtest.kinds.pod_parts import containers_at
from envtest.kinds.volume_overlaps import overlap_warnings
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
"""Labels of nodes that have other names now."""
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
"""Sources of volumes that do not work any more."""
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
    """A name that cannot be a host's."""
    wrong = validation.dns_label(name)
    if wrong:
        where = "the Pod's hostname" if pod else "Pod names and hostnames"
        surprise = "which can result in surprising behavior; a DNS label is recommended"
        yield f"metadata.name: this is used in {where}, {surprise}: [{' '.join(wrong)}]"


def pod_warnings(template: JsonObject, path: str = "") -> Iterator[str]:
    """Of a pod, or of a template that stands under `path`."""
    spec: JsonObject = template.get("spec") or {}
    notes: Mapping[str, str] = (template.get("metadata") or {}).get("annotations") or {}
    prefix = f"{path}." if path else ""
    at = f"{prefix}spec"
    yield from _node_warnings(spec, at)
    for key, text in _OLD_ANNOTATIONS.items():
        if key in notes:
            yield f"{prefix}metadata.annotations[{key}]: {text}"
    yield from _volume_warnings(spec.get("volumes") or (), f"{at}.volumes")
    yield from overlap_warnings(spec.get("volumes") or ())
    yield from _repeated_warnings(spec, at)
    yield from fraction_warnings(spec.get("overhead") or {}, f"{at}.overhead")
    yield from _profile_warnings(spec, notes, prefix, template=bool(path))
    yield from _port_warnings(spec, at)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{at}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
    yield from _affinity_warnings(spec.get("affinity") or {}, f"{at}.affinity")
    for index, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from address_warnings(server, f"{at}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address_warnings(alias.get("ip", ""), f"{at}.hostAliases[{index}].ip")


# ------------------------------------------------------------------ where it runs
def _node_warnings(spec: JsonObject, at: str) -> Iterator[str]:
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
    """Of one term of a selector of nodes."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key")
        if key in OLD_LABELS:
            yield f"{at}.matchExpressions[{index}].key: {key} is {OLD_LABELS[key]}"
        for number, value in enumerate(expression.get("values") or ()):
            for text in validation.label_value(value):
                yield f"{at}.matchExpressions[{index}].values[{number}]: {value} is invalid, {text}"


def _affinity_warnings(affinity: JsonObject, at: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        for word, inner in (("required", ""), ("preferred", ".podAffinityTerm")):
            key = f"{word}DuringSchedulingIgnoredDuringExecution"
            for index, term in enumerate(found.get(key) or ()):
                named = (term.get("podAffinityTerm") or {}) if inner else term
                if named.get("labelSelector") is None:
                    yield f"{at}.{kind}.{key}[{index}]{inner}.labelSelector: {_NULL_SELECTOR}"


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
    """Of the size of a claim."""
    yield from fraction_warnings(requests, at, ("storage",))


def _repeated_warnings(spec: JsonObject, at: str) -> Iterator[str]:
    for key, field in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(key) or ()):
            value = item.get(field, "")
            if value in seen:
                yield f"{at}.{key}[{index}].{field}: duplicate {field} {api_errors.quoted(value)}"
            seen.add(value)
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{at}.imagePullSecrets[{index}].name: invalid empty name ""'


def fraction_warnings(
    amounts: Mapping[str, str], at: str, which: Sequence[str] = ("memory", "ephemeral-storage")
) -> Iterator[str]:
    """Parts of bytes."""
    for name in which:
        if name in amounts and not Quantity(str(amounts[name])).whole:
            yield f'{at}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


# ------------------------------------------------------------------ containers
def _profile_warnings(spec: JsonObject, notes: Mapping[str, str], prefix: str, *, template: bool) -> Iterator[str]:
    context = spec.get("securityContext") or {}
    key = "seccomp.security.alpha.kubernetes.io/pod"
    if key in notes and context.get("seccompProfile") is None:
        yield f"{prefix}metadata.annotations[{key}]: {_SECCOMP}"
    for container, at in containers_at(spec, f"{prefix}spec"):
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
                yield from fraction_warnings(resources.get(kind) or {}, f"{at}.resources.{kind}", (which,))
        yield from _environment_warnings(container.get("env") or (), f"{at}.env")


def _environment_warnings(variables: Sequence[JsonObject], at: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value") or ""
        before = f"$({name})"
        if name in seen and (variable.get("valueFrom") is not None or value == before or before not in value):
            yield f'{at}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _port_warnings(spec: JsonObject, at: str) -> Iterator[str]:
    seen: dict[tuple[int, str], list[tuple[JsonObject, str]]] = {}
    for container, path in containers_at(spec, at):
        for index, port in enumerate(container.get("ports") or ()):
            where = f"{path}.ports[{index}]"
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{where}: hostIP set without hostPort: {_go_port(port)}"
            others = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
            for other, there in others:
                word = _clash(port, other)
                if word:
                    yield f"{where}: {word} port definition with {there}"
            others.append((port, where))


def _clash(port: JsonObject, other: JsonObject) -> str:
    ours, theirs = ((p.get("hostIP") or "", p.get("hostPort") or 0) for p in (port, other))
    if ours == theirs:
        return "duplicate"
    if not ours[1] or not theirs[1]:
        return "overlapping"
    return "dangerously ambiguous" if ours[1] == theirs[1] and bool(ours[0]) != bool(theirs[0]) else ""


def _go_port(port: JsonObject) -> str:
    keys = (("Name", "name", ""), ("HostPort", "hostPort", 0), ("ContainerPort", "containerPort", 0),
            ("Protocol", "protocol", ""), ("HostIP", "hostIP", ""))  # fmt: skip
    return "{" + " ".join(f"{shown}:{port.get(key, default)}" for shown, key, default in keys) + "}"


# ------------------------------------------------------------------ addresses
