"""Validation of fields by the pod's operating system, and of user namespaces.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envtest.groups.common.pod_spec import containers_at
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_SYSTEMS: Final = ("linux", "windows")
_NOT_LINUX: Final = "windows options cannot be set for a linux pod"
_NOT_WINDOWS: Final = "cannot be set for a windows pod"
_POD_CONTEXT: Final = (
    "appArmorProfile", "seLinuxOptions", "hostUsers", "hostPID", "hostIPC", "seccompProfile", "fsGroup",
    "fsGroupChangePolicy", "sysctls", "shareProcessNamespace", "runAsUser", "runAsGroup", "supplementalGroups",
    "supplementalGroupsPolicy",
)  # fmt: skip
"""Fields that Windows pods must not set, in the pod security context or in the spec."""
_OUTSIDE: Final = frozenset({"hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"})
_CONTEXT: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_USERS: Final = "when `hostUsers` is false"


def validate_system(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate ``os.name`` and the fields that the OS forbids."""
    system = spec.get("os")
    if system is None:
        return
    name = system.get("name", "")
    if not name:
        yield api_errors.required(f"{path}.os.name", "cannot be empty")
    elif name not in _SYSTEMS:
        yield api_errors.unsupported(f"{path}.os", name, _SYSTEMS)
    else:
        yield from (_linux if name == "linux" else _windows)(spec, path)


def _linux(spec: JsonObject, path: str) -> Iterator[Cause]:
    if (spec.get("securityContext") or {}).get("windowsOptions") is not None:
        yield api_errors.not_allowed(f"{path}.securityContext.windowsOptions", _NOT_LINUX)
    for container, container_path in containers_at(spec, path):
        if (container.get("securityContext") or {}).get("windowsOptions") is not None:
            yield api_errors.not_allowed(f"{container_path}.securityContext.windowsOptions", _NOT_LINUX)


def _windows(spec: JsonObject, path: str) -> Iterator[Cause]:
    context = spec.get("securityContext") or {}
    for key in _POD_CONTEXT:
        if key in _OUTSIDE:
            # hostUsers and shareProcessNamespace are pointers: false is forbidden too.
            if spec.get(key) or (spec.get(key) is False and key in ("hostUsers", "shareProcessNamespace")):
                yield api_errors.not_allowed(f"{path}.{key}", _NOT_WINDOWS)
        elif context.get(key) not in (None, [], {}):
            yield api_errors.not_allowed(f"{path}.securityContext.{key}", _NOT_WINDOWS)
    for container, container_path in containers_at(spec, path):
        own = container.get("securityContext") or {}
        for key in _CONTEXT:
            if own.get(key) is not None:
                yield api_errors.not_allowed(f"{container_path}.securityContext.{key}", _NOT_WINDOWS)


def validate_host_users(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate that a pod with a user namespace shares no other namespace with the host."""
    if spec.get("hostUsers") is not False:
        return
    for key, label in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(key):
            yield api_errors.not_allowed(f"{path}.{label}", _USERS)
    for container, container_path in containers_at(spec, path):
        if container.get("volumeDevices"):
            yield api_errors.not_allowed(f"{container_path}.volumeDevices", _USERS)


def validate_host_process(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate that all containers or none are HostProcess containers."""
    whole = _host_process(spec)
    containers = list(containers_at(spec, path))
    flags = [(_host_process(container), container_path) for container, container_path in containers]
    for own, container_path in flags:
        if whole is not None and own is not None and own != whole:
            text = f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            yield api_errors.invalid_value(f"{container_path}.securityContext.windowsOptions.hostProcess", own, text)
    count = sum(bool(whole if own is None else own) for own, _ in flags)
    if count and count != len(flags):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield api_errors.invalid_value(path, "", text)
    if count and not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        yield api_errors.invalid_value(f"{path}.hostNetwork", False, text)


def _host_process(part: JsonObject) -> bool | None:
    options = (part.get("securityContext") or {}).get("windowsOptions") or {}
    host_process: bool | None = options.get("hostProcess")
    return host_process
