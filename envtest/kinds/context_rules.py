"""What pods may say of users, profiles and namespaces of their processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from envtest.kinds import rules
from opsdk.apiserver import problems
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_KINDS: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_PROC_MOUNTS: Final = ("Default", "Unmasked")


def validate_pod_context(spec: Tree, path: str) -> Iterator[Cause]:
    """The security context of a pod, and what goes with it."""
    context, at = spec.get("securityContext") or {}, f"{path}.securityContext"
    yield from validate_ids(context, at)
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield problems.invalid_value(f"{at}.shareProcessNamespace", True, text)
    yield from _sysctls(context.get("sysctls") or (), f"{at}.sysctls")
    for key, allowed in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ):
        if context.get(key) is not None and context[key] not in allowed:
            yield problems.unsupported(f"{at}.{key}", context[key], allowed)
    yield from validate_profiles(context, at)


def validate_system(spec: Tree, path: str) -> Iterator[Cause]:
    """The operating system."""
    system = spec.get("os")
    if system is None:
        return
    name = system.get("name", "")
    if not name:
        yield problems.required(f"{path}.os.name", "cannot be empty")
    elif name not in ("linux", "windows"):
        yield problems.unsupported(f"{path}.os", name, ("linux", "windows"))


def _sysctls(found: Sequence[Tree], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, item in enumerate(found):
        at, name = f"{path}[{index}].name", item.get("name", "")
        if not name:
            yield problems.required(at)
        elif len(name) > 253 or not re.fullmatch(_SYSCTL, name):
            text = f"must have at most 253 characters and match regex {_SYSCTL}"
            yield problems.invalid_value(at, name, text)
        elif name in seen:
            yield problems.duplicate(at, name)
        seen.add(name)


def validate_container_context(context: Tree | None, path: str) -> Iterator[Cause]:
    """The security context of a container."""
    if context is None:
        return
    yield from validate_ids(context, path)
    mount = context.get("procMount")
    if mount is not None and mount not in _PROC_MOUNTS:
        yield problems.unsupported(f"{path}.procMount", mount, _PROC_MOUNTS)
    yield from validate_profiles(context, path)
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield problems.invalid_value(path, context, text)
        added = (context.get("capabilities") or {}).get("add") or ()
        if "CAP_SYS_ADMIN" in added:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield problems.invalid_value(path, context, text)


def validate_ids(context: Tree, path: str) -> Iterator[Cause]:
    """Users and groups are numbers that fit."""
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        if context.get(key) is not None:
            yield from rules.in_range(context[key], 0, 2**31 - 1, f"{path}.{key}")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from rules.in_range(group, 0, 2**31 - 1, f"{path}.supplementalGroups[{index}]")


def validate_profiles(context: Tree, path: str) -> Iterator[Cause]:
    """Profiles of the kernel's two guards."""
    for key, word in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        if context.get(key) is not None:
            yield from _profile(context[key], f"{path}.{key}", key, word)


def _profile(profile: Tree, path: str, key: str, word: str) -> Iterator[Cause]:
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield problems.required(f"{path}.type", f"type is required when {key} is set")
    elif kind not in _KINDS:
        yield problems.unsupported(f"{path}.type", kind, _KINDS)
    elif kind == "Localhost" and local is None:
        yield problems.required(f"{path}.localhostProfile", f"must be set when {word} type is Localhost")
    elif kind != "Localhost" and local is not None:
        text = f"can only be set when {word} type is Localhost"
        yield problems.invalid_value(f"{path}.localhostProfile", local, text)
    elif local is not None:
        yield from _local(local, f"{path}.localhostProfile", word)


def _local(local: str, path: str, word: str) -> Iterator[Cause]:
    if word == "seccomp":
        yield from rules.inside(local, path)
    elif not local.strip():
        yield problems.required(path, "must be set when AppArmor type is Localhost")
    elif local != local.strip():
        yield problems.invalid_value(path, local, "must not be padded with whitespace")
    elif len(local) > 4095:
        yield problems.too_long(path, 4095)
