"""Validation of containers: ports, environment, mounts, probes, resources.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from envtest.groups.common import validation
from envtest.groups.core import resource_names
from envtest.groups.core.validation.container_restart import validate_restarts
from envtest.groups.core.validation.security_context import validate_container_context
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.validation import qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_PULL = ("Always", "IfNotPresent", "Never")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN_FIELDS = frozenset(
    {*_ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"}
)
_MEASURED = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_BYTES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS = {
    "cpu": (("1m", "1"), "cpu"),
    "memory": (_BYTES, "memory"),
    "ephemeral-storage": (_BYTES, "local ephemeral storage"),
    "hugepages-": (_BYTES, "hugepages"),
}
"""By the prefix of a resource name: the allowed units, and the name of the resource in messages."""
_ENV_NAME = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_HUGE = "hugepages-"


class PodContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a pod that container validation depends on.

    Attributes:
        volumes: volume sources by name.
        claims: the names of the DRA claims.
        grace_period_seconds: the pod's termination grace period.
        restart_policy: the pod's restart policy.
        system: the operating system of the pod; empty if it is not set.
        host_users: whether the pod uses the node's user namespace.
    """

    volumes: Mapping[str, JsonObject] = msgspec.field(default_factory=dict)
    claims: Sequence[str] = ()
    grace_period_seconds: int = 30
    restart_policy: str = ""
    system: str = ""
    host_users: bool = True


def validate_containers(spec: JsonObject, path: str, pod_context: PodContext) -> Iterator[Cause]:
    """Validate the ordinary containers."""
    containers = spec.get("containers") or []
    where = f"{path}.containers"
    if not containers:
        yield api_errors.required(where)
        return
    names: set[str] = set()
    for index, container in enumerate(containers):
        item_path = f"{where}[{index}]"
        yield from _validate_container(container, item_path, pod_context)
        if container.get("name", "") in names:
            yield api_errors.duplicate(f"{item_path}.name", container.get("name", ""))
        names.add(container.get("name", ""))
        yield from _validate_lifecycle_and_probes(container, item_path, pod_context)
    yield from _host_ports(containers, where)


def validate_init_containers(spec: JsonObject, path: str, pod_context: PodContext) -> Iterator[Cause]:
    """Validate init containers; sidecars may have probes and lifecycle hooks."""
    names = {c.get("name", "") for c in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        item_path, name = f"{path}.initContainers[{index}]", container.get("name", "")
        yield from _validate_container(container, item_path, pod_context)
        if name in names:
            yield api_errors.duplicate(f"{item_path}.name", name)
        elif name:
            names.add(name)
        yield from _host_ports([container], f"{path}.initContainers")
        if container.get("restartPolicy") == "Always":
            yield from _validate_lifecycle_and_probes(container, item_path, pod_context)
            continue
        for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(key) is not None:
                text = "may not be set for init containers without restartPolicy=Always"
                yield api_errors.not_allowed(f"{item_path}.{key}", text)
        for policy in container.get("resizePolicy") or ():
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must be 'NotRequired' for init containers without restartPolicy=Always"
                yield api_errors.invalid_value(f"{item_path}.resizePolicy", policy["restartPolicy"], text)


_EPHEMERAL_ORDER = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe", "readinessProbe",
    "startupProbe", "lifecycle",
)  # fmt: skip


def validate_ephemeral_containers(spec: JsonObject, path: str, pod_context: PodContext) -> Iterator[Cause]:
    """Validate ephemeral containers, which allow few fields."""
    others = {c.get("name", "") for key in ("containers", "initContainers") for c in spec.get(key) or ()}
    names = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        item_path = f"{path}.ephemeralContainers[{index}]"
        yield from _validate_container(container, item_path, pod_context)
        yield from validate_image(container, item_path)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in names:
            yield api_errors.duplicate(f"{item_path}.name", name)
        names.add(name)
        if target and target not in others:
            yield not_found(f"{item_path}.targetContainerName", target)
        for key in _EPHEMERAL_ORDER:
            if container.get(key):
                yield api_errors.not_allowed(f"{item_path}.{key}", _NOT_EPHEMERAL)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for key in ("subPath", "subPathExpr"):
                if mount.get(key):
                    yield api_errors.not_allowed(f"{item_path}.volumeMounts[{number}].{key}", _NOT_EPHEMERAL)


def validate_image(container: JsonObject, path: str) -> Iterator[Cause]:
    """Validate that an image has no surrounding white space; templates are not checked."""
    image = container.get("image", "")
    if image != image.strip():
        yield api_errors.invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")


def not_found(path: str, name: str, explanation: str = "") -> Cause:
    """Return the cause of a reference to something that does not exist."""
    detail = f": {explanation}" if explanation else ""
    return Cause(reason="FieldValueNotFound", message=f"Not found: {api_errors.quoted(name)}{detail}", field=path)


# ------------------------------------------------------------------ one container
def _validate_container(container: JsonObject, path: str, pod_context: PodContext) -> Iterator[Cause]:
    """Yield what is wrong with a container, without its lifecycle and probes."""
    name = container.get("name", "")
    if not name:
        yield api_errors.required(f"{path}.name")
    else:
        yield from validation.label(name, f"{path}.name")
    image = container.get("image", "")
    if not image:
        yield api_errors.required(f"{path}.image")
    policies = ("File", "FallbackToLogsOnError")
    policy = container.get("terminationMessagePolicy")
    yield from validation.one_of(policy, policies, f"{path}.terminationMessagePolicy")
    yield from _ports(container, f"{path}.ports")
    env_path = f"{path}.env"
    for index, variable in enumerate(container.get("env") or ()):
        item_path, name = f"{env_path}[{index}]", variable.get("name", "")
        if not name:
            yield api_errors.required(f"{item_path}.name")
        elif _odd_name(name):
            yield api_errors.invalid_value(f"{item_path}.name", name, _ENV_NAME)
        source = variable.get("valueFrom")
        if source is not None:
            yield from _value_from(source, variable.get("value", ""), f"{item_path}.valueFrom")
    yield from _environment_from(container, f"{path}.envFrom")
    yield from _mounts(container, f"{path}.volumeMounts", pod_context.volumes)
    yield from _devices(container, f"{path}.volumeDevices", pod_context.volumes)
    yield from validation.one_of(container.get("imagePullPolicy"), _PULL, f"{path}.imagePullPolicy")
    yield from validate_resources(container.get("resources") or {}, f"{path}.resources", claims=pod_context.claims)
    yield from _resizing(container.get("resizePolicy") or (), f"{path}.resizePolicy", pod_context)
    context, context_path = container.get("securityContext"), f"{path}.securityContext"
    yield from validate_container_context(context, context_path, host_users=pod_context.host_users)
    yield from validate_restarts(container, path)


def _ports(container: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the ports of a container."""
    names: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        item_path, name = f"{path}[{index}]", port.get("name", "")
        if name:
            problems = validation.port_name_problems(name)
            yield from validation.each(problems, name, f"{item_path}.name")
            if not problems and name in names:
                yield api_errors.duplicate(f"{item_path}.name", name)
            if not problems:
                names.add(name)
        number = port.get("containerPort") or 0
        if number:
            yield from validation.port_number(number, f"{item_path}.containerPort")
        else:
            yield api_errors.required(f"{item_path}.containerPort")
        if port.get("hostPort"):
            yield from validation.port_number(port["hostPort"], f"{item_path}.hostPort")
        yield from validation.one_of(port.get("protocol"), validation.PROTOCOLS, f"{item_path}.protocol")


def _host_ports(containers: Sequence[JsonObject], path: str) -> Iterator[Cause]:
    host_ports: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if text in host_ports:
                yield api_errors.duplicate(f"{path}[{index}].ports[{number}].hostPort", text)
            host_ports.add(text)


# ------------------------------------------------------------------ environment


def _value_from(source: JsonObject, value: str, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the source of a variable: exactly one, and no value besides."""
    if source.get("fieldRef") is not None:
        yield from validate_field_ref(source["fieldRef"], f"{path}.fieldRef", _ENV_FIELDS)
    if source.get("resourceFieldRef") is not None:
        yield from validate_resource_ref(source["resourceFieldRef"], f"{path}.resourceFieldRef", in_volume=False)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if source.get(key) is not None:
            yield from validation.required(source[key].get("name"), f"{path}.{key}.name")
            selected_key = source[key].get("key", "")
            if not selected_key:
                yield api_errors.required(f"{path}.{key}.key")
            else:
                yield from validation.each(
                    validation.config_key_problems(selected_key), selected_key, f"{path}.{key}.key"
                )
    if source.get("fileKeyRef") is not None:
        yield from _file_key(source["fileKeyRef"], f"{path}.fileKeyRef")
    count = len([key for key, part in source.items() if part is not None])
    if not count:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield api_errors.invalid_value(path, "", text)
    elif value:
        yield api_errors.invalid_value(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield api_errors.invalid_value(path, "", "may not have more than one field specified at a time")


def _file_key(ref: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a reference to a variable in a file of a volume."""
    key = ref.get("key", "")
    if not key:
        yield api_errors.required(f"{path}.key")
    elif _odd_name(key):
        yield api_errors.invalid_value(f"{path}.key", key, _ENV_NAME)
    yield from validation.required(ref.get("volumeName"), f"{path}.volumeName")
    if not ref.get("path"):
        yield api_errors.required(f"{path}.path")
    else:
        yield from validation.local_non_reserved_path(ref["path"], f"{path}.path")


def _odd_name(name: str) -> bool:
    return any(not " " <= char <= "~" or char == "=" for char in name)


def validate_field_ref(ref: JsonObject, path: str, allowed: Sequence[str]) -> Iterator[Cause]:
    """Validate a downward API field reference."""
    target = ref.get("fieldPath", "")
    if not ref.get("apiVersion"):
        yield api_errors.required(f"{path}.apiVersion")
    elif not target:
        yield api_errors.required(f"{path}.fieldPath")
    elif ref["apiVersion"] != "v1":
        text = f"error converting fieldPath: unsupported pod version: {ref['apiVersion']}"
        yield api_errors.invalid_value(f"{path}.fieldPath", target, text)
    else:
        base, bracket, key = target.partition("['")
        if bracket and key.endswith("']"):
            key = key.removesuffix("']")
            if base not in ("metadata.annotations", "metadata.labels"):
                text = f"error converting fieldPath: field label does not support subscript: {target}"
                yield api_errors.invalid_value(f"{path}.fieldPath", target, text)
                return
            rendered = key.lower() if base == "metadata.annotations" else key
            yield from validation.each(qualified_name(rendered), key, path)
        elif target not in _KNOWN_FIELDS:
            text = f"error converting fieldPath: field label not supported: {target}"
            yield api_errors.invalid_value(f"{path}.fieldPath", target, text)
        elif (rendered := "spec.nodeName" if target == "spec.host" else target) not in allowed:
            yield api_errors.unsupported(f"{path}.fieldPath", rendered, allowed)


def validate_resource_ref(ref: JsonObject, path: str, *, in_volume: bool) -> Iterator[Cause]:
    """Validate a downward API resource reference."""
    resource = ref.get("resource", "")
    if in_volume and not ref.get("containerName"):
        yield api_errors.required(f"{path}.containerName")
    elif not resource:
        yield api_errors.required(f"{path}.resource")
    elif resource not in _MEASURED and not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield api_errors.unsupported(f"{path}.resource", resource, _MEASURED)
    divisor = str(ref.get("divisor", "0"))
    divisor_path = f"{path}.divisor"
    kind = resource.partition(".")[2]
    divisors = next((rule for start, rule in _DIVISORS.items() if kind.startswith(start)), None)
    if divisor != "0" and divisors is not None and divisor not in divisors[0]:
        units = (" and " if len(divisors[0]) == 2 else ", ").join(divisors[0])
        text = f"only divisor's values {units} are supported with the {divisors[1]} resource"
        yield api_errors.invalid_value(divisor_path, resource, text)


def _environment_from(container: JsonObject, path: str) -> Iterator[Cause]:
    for index, source in enumerate(container.get("envFrom") or ()):
        item_path, prefix = f"{path}[{index}]", source.get("prefix", "")
        if _odd_name(prefix):
            yield api_errors.invalid_value(f"{item_path}.prefix", prefix, _ENV_NAME)
        refs = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        for key in refs:
            yield from validation.required(source[key].get("name"), f"{item_path}.{key}.name")
        if not refs:
            yield api_errors.invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(refs) > 1:
            yield api_errors.invalid_value(path, "", "may not have more than one field specified at a time")


# ------------------------------------------------------------------ mounts
def _mounts(container: JsonObject, path: str, volumes: Mapping[str, JsonObject]) -> Iterator[Cause]:
    """Yield what is wrong with the mounts of a container."""
    paths: set[str] = set()
    devices = container.get("volumeDevices") or []
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        item_path, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        yield from validation.required(name, f"{item_path}.name")
        if name not in volumes:
            yield not_found(f"{item_path}.name", name)
        yield from validation.required(target, f"{item_path}.mountPath")
        if target in paths:
            yield api_errors.invalid_value(f"{item_path}.mountPath", target, "must be unique")
        paths.add(target)
        if any(d.get("name") == name for d in devices):
            yield api_errors.invalid_value(f"{item_path}.name", name, "must not already exist in volumeDevices")
        if any(d.get("devicePath") == target for d in devices):
            text = "must not already exist as a path in volumeDevices"
            yield api_errors.invalid_value(f"{item_path}.mountPath", target, text)
        # As upstream, the paths of these errors omit the index of the mount.
        if mount.get("subPath"):
            yield from validation.local_descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                text = "subPathExpr and subPath are mutually exclusive"
                yield api_errors.invalid_value(f"{item_path}.subPathExpr", mount["subPathExpr"], text)
            yield from validation.local_descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
        yield from _propagation(mount.get("mountPropagation"), container, f"{path}.mountPropagation")
        yield from _read_only(mount, f"{item_path}.recursiveReadOnly")


def _read_only(mount: JsonObject, path: str) -> Iterator[Cause]:
    mode = mount.get("recursiveReadOnly")
    if mode is not None and mode not in _RECURSIVE:
        yield api_errors.unsupported(path, mode, _RECURSIVE)
    if mode not in ("Enabled", "IfPossible"):
        return
    if not mount.get("readOnly"):
        yield api_errors.not_allowed(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in (None, "None"):
        text = "may only be specified when mountPropagation is None or not specified"
        yield api_errors.not_allowed(path, text)


def _propagation(value: str | None, container: JsonObject, path: str) -> Iterator[Cause]:
    if value is None:
        return
    if value not in _PROPAGATIONS:
        yield api_errors.unsupported(path, value, _PROPAGATIONS)
    elif value == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        yield api_errors.not_allowed(path, "Bidirectional mount propagation is available only to privileged containers")


def _devices(container: JsonObject, path: str, volumes: Mapping[str, JsonObject]) -> Iterator[Cause]:
    """Yield what is wrong with the block devices of a container."""
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        item_path, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        yield from validation.required(name, f"{item_path}.name")
        if name in seen_names:
            yield api_errors.invalid_value(f"{item_path}.name", name, "must be unique")
        if name not in volumes:
            yield not_found(f"{item_path}.name", name)
        elif not {"persistentVolumeClaim", "ephemeral"} & set(volumes[name]):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield api_errors.invalid_value(f"{item_path}.name", name, text)
        yield from validation.required(target, f"{item_path}.devicePath")
        if target in seen_paths:
            yield api_errors.invalid_value(f"{item_path}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            yield api_errors.invalid_value(f"{item_path}.devicePath", target, "can not contain backsteps ('..')")
        else:
            seen_paths.add(target)
        mounts = container.get("volumeMounts") or ()
        if any(m.get("name") == name for m in mounts):
            yield api_errors.invalid_value(f"{item_path}.name", name, "must not already exist in volumeMounts")
        if any(m.get("mountPath") == target for m in mounts):
            text = "must not already exist as a path in volumeMounts"
            yield api_errors.invalid_value(f"{item_path}.devicePath", target, text)
        seen_names.add(name)


# ------------------------------------------------------------------ probes and hooks
def _validate_lifecycle_and_probes(container: JsonObject, path: str, pod_context: PodContext) -> Iterator[Cause]:
    """Yield what is wrong with the hooks and probes of a container."""
    for hook in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(hook)
        if handler is not None:
            yield from _handler(handler, f"{path}.lifecycle.{hook}", pod_context)
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(key)
        if probe is None:
            continue
        yield from _probe(probe, f"{path}.{key}", pod_context)
        grace = probe.get("terminationGracePeriodSeconds")
        if key == "readinessProbe":
            if grace is not None:
                text = "must not be set for readinessProbes"
                yield api_errors.invalid_value(f"{path}.{key}.terminationGracePeriodSeconds", grace, text)
        elif probe.get("successThreshold", 1) != 1:
            yield api_errors.invalid_value(f"{path}.{key}.successThreshold", probe["successThreshold"], "must be 1")


def _probe(probe: JsonObject, path: str, pod_context: PodContext) -> Iterator[Cause]:
    yield from _handler(probe, path, pod_context)
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        yield from validation.not_negative(probe.get(key), f"{path}.{key}")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield api_errors.invalid_value(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def _handler(handler: JsonObject, path: str, pod_context: PodContext) -> Iterator[Cause]:
    """Yield what is wrong with the action of a hook or probe: exactly one."""
    handlers = [key for key in _HANDLERS if handler.get(key) is not None]
    if not handlers:
        yield api_errors.required(path, "must specify a handler type")
        return
    action = handler[handlers[0]]
    action_path = f"{path}.{handlers[0]}"
    match handlers[0]:
        case "exec":
            yield from validation.required(action.get("command"), f"{action_path}.command")
        case "httpGet":
            yield from validation.required(action.get("path"), f"{action_path}.path")
            yield from validation.port_or_name(action.get("port", 0), f"{action_path}.port")
            yield from validation.one_of(action.get("scheme"), ("HTTP", "HTTPS"), f"{action_path}.scheme")
            for header in action.get("httpHeaders") or ():
                yield from validation.header_name(header.get("name", ""), f"{action_path}.httpHeaders")
        case "sleep":
            seconds = action.get("seconds", 0)
            limit = pod_context.grace_period_seconds
            if seconds < 0 or seconds > limit:
                text = f"must be non-negative and less than terminationGracePeriodSeconds ({limit})"
                yield api_errors.invalid_value(action_path, seconds, text)
        case _:
            yield from validation.port_or_name(action.get("port", 0), f"{action_path}.port")
    for key in handlers[1:]:
        yield api_errors.not_allowed(f"{path}.{key}", "may not specify more than 1 handler type")


# ------------------------------------------------------------------ resources
def validate_resources(resources: JsonObject, path: str, *, claims: Sequence[str] = ()) -> Iterator[Cause]:
    """Validate requests, limits and the referenced DRA `claims`."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in sorted(limits.items()):
        yield from _amount(name, amount, f"{path}.limits[{name}]")
    for name, amount in sorted(requests.items()):
        yield from _amount(name, amount, f"{path}.requests[{name}]", huge=False)
        if name in limits:
            limit = limits[name]
            requests_path = f"{path}.requests"
            if Quantity(amount) != Quantity(limit) and not resource_names.is_overcommit_allowed(name):
                yield api_errors.invalid_value(requests_path, amount, f"must be equal to {name} limit of {limit}")
            elif Quantity(amount) > Quantity(limit):
                yield api_errors.invalid_value(
                    requests_path, amount, f"must be less than or equal to {name} limit of {limit}"
                )
        elif not resource_names.is_overcommit_allowed(name):
            yield api_errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        yield from _pages(name, amount, f"{path}.requests[{name}]")
    huge = any(name.startswith(_HUGE) for name in (*limits, *requests))
    if huge and not {"cpu", "memory"} & {*limits, *requests}:
        yield api_errors.not_allowed(path, "HugePages require cpu or memory")
    yield from _claimed(resources.get("claims") or (), f"{path}.claims", claims)


def _amount(name: str, amount: str, path: str, *, huge: bool = True) -> Iterator[Cause]:
    yield from resource_names.container_name(name, path)
    yield from resource_names.amount(name, amount, path)
    if huge:
        yield from _pages(name, amount, path)


def _pages(name: str, amount: str, path: str) -> Iterator[Cause]:
    """Validate that a huge page quantity is a multiple of the page size."""
    size = name.removeprefix(_HUGE)
    if not name.startswith(_HUGE) or re.fullmatch(r"[0-9]+(Ki|Mi|Gi|Ti)?", size) is None or not Quantity(size).value:
        return
    value = Quantity(amount).value
    if int(value) != value or int(value) % int(Quantity(size).value):
        yield api_errors.invalid_value(path, amount, f"{amount} is not positive integer multiple of {name}")


def _claimed(claims_used: Sequence[JsonObject], path: str, claims: Sequence[str]) -> Iterator[Cause]:
    """Validate that the DRA claims of a container exist in the pod."""
    pairs: set[tuple[str, str]] = set()
    for index, claim in enumerate(claims_used):
        item_path, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            yield api_errors.required(item_path)
            continue
        if (name, claim.get("request", "")) in pairs:
            yield api_errors.duplicate(item_path, name)
        pairs.add((name, claim.get("request", "")))
        if name not in claims:
            listed = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            yield not_found(item_path, name, f"must be one of the names in pod.spec.resourceClaims{listed}")


def _resizing(policies: Sequence[JsonObject], path: str, pod_context: PodContext) -> Iterator[Cause]:
    """Validate the resize policy of a container."""
    names: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in names:
            yield api_errors.duplicate(f"{path}[{index}]", name)
        names.add(name)
        yield from validation.one_of(name, ("cpu", "memory"), path)
        yield from validation.one_of(restart, ("NotRequired", "RestartContainer"), path)
        if pod_context.restart_policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            yield api_errors.invalid_value(path, restart, text)
