"""Validation of security contexts: users, groups, profiles and host namespaces.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from envtest.codec.internal_form import CORE, shown
from envtest.groups.common import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_KINDS: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_HOST_SYSCTLS: Final = {
    "hostNetwork": ("net.",),
    "hostIPC": ("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."),
}
"""Sysctl prefixes that each host namespace forbids."""
_MOST_LOCAL: Final = 4095
_MOST_SPEC: Final = 64 * 1024
_MOST_USER: Final = 104
_MOST_DOMAIN: Final = 256
_DNS: Final = r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*"
_NET_BIOS: Final = r'[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}'


# ------------------------------------------------------------------ pods
def validate_pod_context(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the security context of a pod and its host namespaces."""
    context, context_path = spec.get("securityContext") or {}, f"{path}.securityContext"
    yield from _ids(context, context_path, ("fsGroup", "runAsUser", "runAsGroup"))
    yield from _word(context, "supplementalGroupsPolicy", ("Merge", "Strict"), context_path)
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield api_errors.invalid_value(f"{context_path}.shareProcessNamespace", True, text)
    sysctls = context.get("sysctls") or ()
    sysctls_path = f"{context_path}.sysctls"
    names: set[str] = set()
    for index, item in enumerate(sysctls):
        name_path, name = f"{sysctls_path}[{index}].name", item.get("name", "")
        if not name:
            yield api_errors.required(name_path)
        elif len(name) > 253 or not re.fullmatch(_SYSCTL, name):
            text = f"must have at most 253 characters and match regex {_SYSCTL}"
            yield api_errors.invalid_value(name_path, name, text)
        elif name in names:
            yield api_errors.duplicate(name_path, name)
        # Sysctls of a host namespace belong to the node.
        for key, prefixes in _HOST_SYSCTLS.items():
            if spec.get(key) and name.replace("/", ".").startswith(prefixes):
                yield api_errors.invalid_value(name_path, name, f"may not be specified when '{key}' is true")
        names.add(name)
    yield from _word(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), context_path)
    yield from _seccomp(context.get("seccompProfile"), f"{context_path}.seccompProfile")
    yield from _windows_options(context.get("windowsOptions"), f"{context_path}.windowsOptions")
    yield from _apparmor(context.get("appArmorProfile"), f"{context_path}.appArmorProfile")
    yield from _word(context, "seLinuxChangePolicy", ("MountOption", "Recursive"), context_path)


def _word(tree: JsonObject, key: str, allowed: Sequence[str], path: str) -> Iterator[Cause]:
    if tree.get(key) is not None and tree[key] not in allowed:
        yield api_errors.unsupported(f"{path}.{key}", tree[key], allowed)


def _ids(context: JsonObject, path: str, keys: Sequence[str]) -> Iterator[Cause]:
    """Validate that user and group ids are in range."""
    for key in keys:
        if context.get(key) is not None:
            yield from validation.in_range(context[key], 0, 2**31 - 1, f"{path}.{key}")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from validation.in_range(group, 0, 2**31 - 1, f"{path}.supplementalGroups[{index}]")


# ------------------------------------------------------------------ containers
def validate_container_context(context: JsonObject | None, path: str, *, host_users: bool = True) -> Iterator[Cause]:
    """Validate the security context of a container."""
    if context is None:
        return
    yield from _ids(context, path, ("runAsUser", "runAsGroup"))
    yield from _word(context, "procMount", _PROC_MOUNTS, path)
    if host_users and context.get("procMount") == "Unmasked":
        text = "`hostUsers` must be false to use `Unmasked`"
        yield api_errors.invalid_value(f"{path}.procMount", "Unmasked", text)
    yield from _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        value = shown(f"{CORE}SecurityContext", context)
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield api_errors.invalid_value(path, value, text)
        added = (context.get("capabilities") or {}).get("add") or ()
        if "CAP_SYS_ADMIN" in added:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield api_errors.invalid_value(path, value, text)
    yield from _windows_options(context.get("windowsOptions"), f"{path}.windowsOptions")
    yield from _apparmor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


# ------------------------------------------------------------------ seccomp and AppArmor profiles
def _seccomp(profile: JsonObject | None, path: str) -> Iterator[Cause]:
    if profile is None:
        return
    kind, local, local_path = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    yield from _kind(kind, f"{path}.type", "seccompProfile")
    if kind != "Localhost":
        if local is not None:
            rendered = {"Type": kind, "LocalhostProfile": local}
            yield api_errors.invalid_value(local_path, rendered, "can only be set when seccomp type is Localhost")
    elif local is None:
        yield api_errors.required(local_path, "must be set when seccomp type is Localhost")
    else:
        yield from validation.local_descending_path(local, local_path)


def _apparmor(profile: JsonObject | None, path: str) -> Iterator[Cause]:
    """Yield what is wrong with an AppArmor profile."""
    if profile is None:
        return
    kind, local, local_path = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    yield from _kind(kind, f"{path}.type", "appArmorProfile")
    if kind == "Localhost":
        if local is None:
            yield api_errors.required(local_path, "must be set when AppArmor type is Localhost")
            return
        if local != local.strip():
            yield api_errors.invalid_value(local_path, local, "must not be padded with whitespace")
        elif not local:
            yield api_errors.required(local_path, "must be set when AppArmor type is Localhost")
        if len(local) > _MOST_LOCAL:
            yield api_errors.too_long(local_path, _MOST_LOCAL)
    elif kind in _KINDS and local is not None:
        yield api_errors.invalid_value(local_path, local, "can only be set when AppArmor type is Localhost")


def _kind(kind: str, path: str, key: str) -> Iterator[Cause]:
    if not kind:
        yield api_errors.required(path, f"type is required when {key} is set")
    elif kind not in _KINDS:
        yield api_errors.unsupported(path, kind, _KINDS)


# ------------------------------------------------------------------ Windows
def _windows_options(options: JsonObject | None, path: str) -> Iterator[Cause]:
    """Validate the Windows options."""
    if options is None:
        return
    name, spec, user = (options.get(k) for k in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName"))
    if name is not None:
        yield from validation.subdomain(name, f"{path}.gmsaCredentialSpecName")
    if spec is not None and not 0 < len(spec) <= _MOST_SPEC:
        text = "size must be under 64 KiB" if spec else "cannot be an empty string"
        yield api_errors.invalid_value(f"{path}.gmsaCredentialSpec", spec, f"gmsaCredentialSpec {text}")
    if user is not None:
        for text in _user_problems(user):
            yield api_errors.invalid_value(f"{path}.runAsUserName", user, f"runAsUserName{text}")


def _user_problems(text: str) -> Iterator[str]:
    """Yield what is wrong with the name of a Windows user, as ends of a sentence."""
    if not text:
        yield " cannot be an empty string"
    elif re.search(r"[\x00-\x1f\x7f]", text):
        yield " cannot contain control characters"
    elif text.count("\\") > 1:
        yield " cannot contain more than one backslash"
    else:
        domain, backslash, user = text.rpartition("\\")
        if backslash and not (
            len(domain) <= _MOST_DOMAIN and any(re.fullmatch(form, domain) for form in (_NET_BIOS, _DNS))
        ):
            yield "'s Domain doesn't match the NetBIOS nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user) > _MOST_USER:
            yield f"'s User length must not be longer than {_MOST_USER} characters"
        if user and not user.strip(". "):
            yield "'s User cannot contain only periods or spaces"
        if re.search(r'["/\\:;|=,+*?<>@\[\]]', user):
            yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
