"""Validation of pod specs, in pods and in templates.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.groups.common import validation
from envtest.groups.common.ip_addresses import ip_address
from envtest.groups.core.validation.affinity import validate_affinity, validate_spread
from envtest.groups.core.validation.container import (
    PodContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_image,
    validate_init_containers,
    validate_resources,
)
from envtest.groups.core.validation.pod_os import validate_host_process, validate_host_users, validate_system
from envtest.groups.core.validation.pod_resources import validate_claims, validate_pod_resources
from envtest.groups.core.validation.security_context import validate_pod_context
from envtest.groups.core.validation.volume import validate_volumes
from opsdk.apimachinery.validation import dns_search, label_value, qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MOST_HOST_NAME = 64
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_pod_spec(spec: JsonObject, path: str, name: str = "") -> Iterator[Cause]:
    """Validate the pod spec at `path`; `name` is the pod's name, empty for a template."""
    volumes, wrong = validate_volumes(spec.get("volumes") or (), f"{path}.volumes", name)
    yield from wrong
    yield from validate_claims(spec.get("resourceClaims") or (), f"{path}.resourceClaims", name)
    grace: int | None = spec.get("terminationGracePeriodSeconds")
    pod_context = PodContext(
        volumes=volumes,
        claims=[claim.get("name", "") for claim in spec.get("resourceClaims") or ()],
        grace_period_seconds=30 if grace is None else grace,
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers") is not False,
    )
    yield from validate_containers(spec, path, pod_context)
    yield from validate_init_containers(spec, path, pod_context)
    yield from validate_ephemeral_containers(spec, path, pod_context)
    yield from validate_pod_resources(spec, path)
    yield from _host_network(spec, path, pod=bool(name))
    yield from validation.one_of(spec.get("restartPolicy"), _RESTART, f"{path}.restartPolicy")
    yield from validation.one_of(spec.get("dnsPolicy"), _DNS, f"{path}.dnsPolicy")
    yield from validation.labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from validate_pod_context(spec, path)
    yield from validate_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _dns_config(spec, f"{path}.dnsConfig")
    yield from _gates(spec, path)
    yield from validate_spread(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    yield from validate_host_process(spec, path)
    yield from validate_host_users(spec, path)
    yield from _names(spec, path)
    yield from validate_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    yield from _aliases(spec.get("hostAliases") or (), f"{path}.hostAliases")
    for key in ("priorityClassName", "runtimeClassName"):
        if spec.get(key) or (key == "runtimeClassName" and spec.get(key) is not None):
            yield from validation.subdomain(spec[key], f"{path}.{key}")
    policies = ("Never", "PreemptLowerPriority")
    yield from validation.one_of(spec.get("preemptionPolicy"), policies, f"{path}.preemptionPolicy", optional=True)
    yield from validate_resources({"limits": spec.get("overhead") or {}}, f"{path}.overhead")
    yield from validate_system(spec, path)


def validate_new_pod(spec: JsonObject) -> Iterator[Cause]:
    """Validate the rules for new pods, which do not apply to templates."""
    if spec.get("ephemeralContainers"):
        yield api_errors.not_allowed("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield api_errors.not_allowed("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def validate_own_pod(spec: JsonObject) -> Iterator[Cause]:
    """Validate the rules for pods, which do not apply to templates."""
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    source_path = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                    yield api_errors.not_allowed(
                        source_path, "must not be specified when serviceAccountName is not set"
                    )
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            yield from validate_image(container, f"spec.{key}[{index}]")


# ------------------------------------------------------------------ names
def _names(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the names that a pod's spec has, and with its deadline."""
    for key in ("serviceAccountName", "nodeName"):
        if spec.get(key):
            yield from validation.subdomain(spec[key], f"{path}.{key}")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        yield from validation.in_range(deadline, 1, 2**31 - 1, f"{path}.activeDeadlineSeconds")
    for key in ("hostname", "subdomain"):
        if spec.get(key):
            yield from validation.label(spec[key], f"{path}.{key}")
    if spec.get("hostnameOverride") is not None:
        hostname_override_path = f"{path}.hostnameOverride"
        name = spec["hostnameOverride"]
        if spec.get("setHostnameAsFQDN"):
            yield api_errors.not_allowed(hostname_override_path, "may not be set when `setHostnameAsFQDN` is true")
        if spec.get("hostNetwork"):
            yield api_errors.not_allowed(hostname_override_path, "may not be set when `hostNetwork` is true")
        yield from validation.subdomain(name, hostname_override_path)
        if len(name) > _MOST_HOST_NAME:
            yield api_errors.too_long(hostname_override_path, _MOST_HOST_NAME)


def _aliases(aliases: Sequence[JsonObject], path: str) -> Iterator[Cause]:
    for index, alias in enumerate(aliases):
        yield from ip_address(alias.get("ip", ""), f"{path}[{index}].ip")
        for number, name in enumerate(alias.get("hostnames") or ()):
            yield from validation.subdomain(name, f"{path}[{index}].hostnames[{number}]")


def _host_network(spec: JsonObject, path: str, *, pod: bool) -> Iterator[Cause]:
    """Validate host ports with host networking: each equals its container port."""
    if not spec.get("hostNetwork"):
        return
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            for number, port in enumerate(container.get("ports") or ()):
                theirs = port.get("hostPort") or 0
                if (pod or theirs) and theirs != port.get("containerPort", 0):
                    port_path = f"{path}.{key}[{index}].ports[{number}].hostPort"
                    text = "must match `containerPort` when `hostNetwork` is true"
                    yield api_errors.invalid_value(port_path, theirs, text)


def _dns_config(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the DNS configuration of a pod."""
    config, alone = spec.get("dnsConfig"), spec.get("dnsPolicy") == "None"
    if config is None:
        if alone:
            yield api_errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if alone and not servers:
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield api_errors.required(f"{path}.nameservers", text)
        return
    if len(servers) > 3:
        yield api_errors.invalid_value(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        yield from ip_address(server, f"{path}.nameservers[{index}]")
    yield from _searches(searches, f"{path}.searches")
    for index, option in enumerate(config.get("options") or ()):
        yield from validation.required(option.get("name"), f"{path}.options[{index}]", "must not be empty")


def _searches(searches: Sequence[str], path: str) -> Iterator[Cause]:
    if len(searches) > 32:
        yield api_errors.invalid_value(path, searches, "must not have more than 32 search paths")
    if len(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        yield api_errors.invalid_value(path, searches, text)
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            yield from validation.each(dns_search(name), name, f"{path}[{index}]")


def _gates(spec: JsonObject, path: str) -> Iterator[Cause]:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        yield from validation.each(qualified_name(kind), kind, f"{path}.readinessGates[{index}].conditionType")
    unique: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        yield from validation.each(qualified_name(name), name, f"{path}.schedulingGates[{index}]")
        if name in unique:
            yield api_errors.duplicate(f"{path}.schedulingGates[{index}]", name)
        unique.add(name)


def validate_tolerations(tolerations: Sequence[JsonObject], path: str) -> Iterator[Cause]:
    """Validate tolerations."""
    for index, toleration in enumerate(tolerations):
        item_path, key, value = f"{path}[{index}]", toleration.get("key", ""), toleration.get("value", "")
        operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
        if key:
            yield from validation.each(qualified_name(key), key, f"{item_path}.key")
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield api_errors.invalid_value(f"{item_path}.operator", operator, text)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield api_errors.invalid_value(f"{item_path}.effect", effect, text)
        if operator in ("", "Equal"):
            problems = label_value(value)
            if problems:
                yield api_errors.invalid_value(f"{item_path}.operator", value, ";".join(problems))
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                yield api_errors.invalid_value(f"{item_path}.operator", value, text)
        else:
            yield api_errors.unsupported(f"{item_path}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield api_errors.unsupported(f"{item_path}.effect", effect, _EFFECTS)
