"""What pod specs may be, in pods and in templates; what their makers should know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.kinds import rules
from envtest.kinds.addresses import ip_address
from envtest.kinds.container_rules import (
    Surroundings,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from envtest.kinds.context_rules import validate_pod_context, validate_system
from envtest.kinds.selector_rules import check_label_selector
from envtest.kinds.volume_rules import validate_volumes
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_pod_spec(spec: Tree, path: str) -> Iterator[Cause]:
    """What is wrong with a pod spec that stands under `path`."""
    volumes, wrong = validate_volumes(spec.get("volumes") or (), f"{path}.volumes")
    yield from wrong
    around = Surroundings(volumes=volumes, grace=spec.get("terminationGracePeriodSeconds") or 30)
    yield from validate_containers(spec, path, around)
    yield from validate_init_containers(spec, path, around)
    yield from validate_ephemeral_containers(spec, path, around)
    yield from _host_network(spec, path)
    yield from rules.one_of(spec.get("restartPolicy"), _RESTART, f"{path}.restartPolicy")
    yield from rules.one_of(spec.get("dnsPolicy"), _DNS, f"{path}.dnsPolicy")
    yield from rules.labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from validate_pod_context(spec, path)
    yield from _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _dns_config(spec, path)
    yield from _gates(spec, path)
    yield from _spread(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    yield from _names(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        yield from rules.in_range(deadline, 1, 2**31 - 1, f"{path}.activeDeadlineSeconds")
    for key in ("hostname", "subdomain"):
        if spec.get(key):
            yield from rules.label(spec[key], f"{path}.{key}")
    yield from validate_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from ip_address(alias.get("ip", ""), f"{path}.hostAliases[{index}].ip")
        for name in alias.get("hostnames") or ():
            yield from rules.subdomain(name, f"{path}.hostAliases[{index}].hostnames")
    for key in ("priorityClassName", "runtimeClassName"):
        if spec.get(key):
            yield from rules.subdomain(spec[key], f"{path}.{key}")
    policies = ("Never", "PreemptLowerPriority")
    yield from rules.one_of(spec.get("preemptionPolicy"), policies, f"{path}.preemptionPolicy", optional=True)
    yield from validate_system(spec, path)


def validate_new_pod(spec: Tree) -> Iterator[Cause]:
    """What only pods have to see to, not their templates, and only once."""
    if spec.get("ephemeralContainers"):
        yield problems.not_allowed("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield problems.not_allowed("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def validate_own_pod(spec: Tree) -> Iterator[Cause]:
    """What only pods have to see to, not their templates."""
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    at = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                    yield problems.not_allowed(at, "must not be specified when serviceAccountName is not set")
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            image = container.get("image", "")
            if image != image.strip():
                text = "must not have leading or trailing whitespace"
                yield problems.invalid_value(f"spec.{key}[{index}].image", image, text)


def _names(spec: Tree, path: str) -> Iterator[Cause]:
    for key in ("serviceAccountName", "nodeName"):
        if spec.get(key):
            yield from rules.subdomain(spec[key], f"{path}.{key}")


def _host_network(spec: Tree, path: str) -> Iterator[Cause]:
    if not spec.get("hostNetwork"):
        return
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            for number, port in enumerate(container.get("ports") or ()):
                if port.get("hostPort") != port.get("containerPort"):
                    at = f"{path}.{key}[{index}].ports[{number}].containerPort"
                    text = "must match `hostPort` when `hostNetwork` is true"
                    yield problems.invalid_value(at, port.get("containerPort"), text)


def _dns_config(spec: Tree, path: str) -> Iterator[Cause]:
    config, alone = spec.get("dnsConfig"), spec.get("dnsPolicy") == "None"
    if alone and config is None:
        yield problems.required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if alone and not servers:
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield problems.required(f"{path}.dnsConfig.nameservers", text)
    if len(servers) > 3:
        yield problems.invalid_value(f"{path}.dnsConfig.nameservers", servers, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        yield from ip_address(server, f"{path}.dnsConfig.nameservers[{index}]")
    if len(searches) > 32:
        yield problems.invalid_value(f"{path}.dnsConfig.searches", searches, "must not have more than 32 search paths")
    for index, option in enumerate(config.get("options") or ()):
        yield from rules.needed(option.get("name"), f"{path}.dnsConfig.options[{index}]", "must not be empty")


def _gates(spec: Tree, path: str) -> Iterator[Cause]:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        yield from rules.each(names.qualified_name(kind), kind, f"{path}.readinessGates[{index}].conditionType")
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        yield from rules.each(names.qualified_name(name), name, f"{path}.schedulingGates[{index}]")
        if name in seen:
            yield problems.duplicate(f"{path}.schedulingGates[{index}]", name)
        seen.add(name)


def validate_tolerations(tolerations: Sequence[Tree], path: str) -> Iterator[Cause]:
    """What is wrong with tolerations."""
    for index, toleration in enumerate(tolerations):
        at, key, value = f"{path}[{index}]", toleration.get("key", ""), toleration.get("value", "")
        operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
        if key:
            yield from rules.each(names.qualified_name(key), key, f"{at}.key")
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield problems.invalid_value(f"{at}.operator", operator, text)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield problems.invalid_value(f"{at}.effect", effect, text)
        if operator in ("", "Equal"):
            found = names.label_value(value)
            if found:
                yield problems.invalid_value(f"{at}.operator", value, ";".join(found))
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                yield problems.invalid_value(f"{at}.operator", value, text)
        else:
            yield problems.unsupported(f"{at}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield problems.unsupported(f"{at}.effect", effect, _EFFECTS)


# ------------------------------------------------------------------ where pods may run
def _spread(constraints: Sequence[Tree], path: str) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey", "")
        when = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            yield problems.invalid_value(f"{at}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield problems.required(f"{at}.topologyKey", "can not be empty")
        else:
            yield from rules.each(names.qualified_name(key), key, f"{at}.topologyKey")
        if when not in ("DoNotSchedule", "ScheduleAnyway"):
            yield problems.unsupported(f"{at}.whenUnsatisfiable", when, ("DoNotSchedule", "ScheduleAnyway"))
        if (key, when) in seen:
            yield problems.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}")
        seen.add((key, when))
        yield from _domains(constraint, at)
        yield from check_label_selector(constraint.get("labelSelector") or {}, f"{at}.labelSelector")


def _domains(constraint: Tree, path: str) -> Iterator[Cause]:
    domains = constraint.get("minDomains")
    if domains is None:
        return
    if domains <= 0:
        yield problems.invalid_value(f"{path}.minDomains", domains, "must be greater than 0")
    if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
        when = constraint.get("whenUnsatisfiable", "")
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        yield problems.invalid_value(f"{path}.minDomains", domains, text)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity(affinity: Tree, path: str) -> Iterator[Cause]:
    node = affinity.get("nodeAffinity") or {}
    if node.get(_REQUIRED) is not None:
        yield from validate_node_selector(node[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for index, term in enumerate(node.get(_PREFERRED) or ()):
        at = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
        yield from _weight(term, at)
        yield from _node_term(term.get("preference") or {}, f"{at}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        for index, term in enumerate(found.get(_REQUIRED) or ()):
            yield from _pod_term(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, term in enumerate(found.get(_PREFERRED) or ()):
            at = f"{path}.{kind}.{_PREFERRED}[{index}]"
            yield from _weight(term, at)
            yield from _pod_term(term.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def _weight(term: Tree, path: str) -> Iterator[Cause]:
    if not 1 <= term.get("weight", 0) <= 100:
        yield problems.invalid_value(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100")


def _pod_term(term: Tree, path: str) -> Iterator[Cause]:
    yield from check_label_selector(term.get("labelSelector") or {}, f"{path}.labelSelector")
    yield from check_label_selector(term.get("namespaceSelector") or {}, f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        yield from rules.label(name, f"{path}.namespace")
    key = term.get("topologyKey", "")
    if not key:
        yield problems.required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from rules.each(names.qualified_name(key), key, f"{path}.topologyKey")


def validate_node_selector(selector: Tree, path: str) -> Iterator[Cause]:
    """Terms, one of which a node must fulfil."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        yield problems.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}.nodeSelectorTerms[{index}]")


def _node_term(term: Tree, path: str) -> Iterator[Cause]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        at, key = f"{path}.matchExpressions[{index}]", requirement.get("key", "")
        yield from _operator(requirement, at)
        yield from rules.each(names.qualified_name(key), key, f"{at}.key")
    for index, requirement in enumerate(term.get("matchFields") or ()):
        at, key = f"{path}.matchFields[{index}]", requirement.get("key", "")
        if requirement.get("operator") not in ("In", "NotIn"):
            text = "not a valid selector operator"
            yield problems.invalid_value(f"{at}.operator", requirement.get("operator", ""), text)
        elif len(requirement.get("values") or ()) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield problems.required(f"{at}.values", text)
        if key != "metadata.name":
            yield problems.invalid_value(f"{at}.key", key, "not a valid field selector key")


def _operator(requirement: Tree, path: str) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield problems.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield problems.not_allowed(f"{path}.values", text)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield problems.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield problems.invalid_value(f"{path}.operator", operator, "not a valid selector operator")


# ------------------------------------------------------------------ warnings
