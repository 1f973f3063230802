"""Validation of pod annotations: mirror pods, pod deletion cost, seccomp and AppArmor profiles.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from envtest.groups.common import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

MIRROR: Final = "kubernetes.io/config.mirror"
APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_LOCAL: Final = "localhost/"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def validate_pod_annotations(notes: Mapping[str, str], spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the annotations of a pod or template at `path`."""
    if MIRROR in notes and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        yield api_errors.invalid_value(f"{path}[{MIRROR}]", notes[MIRROR], text)
    if _COST in notes and not _fits(notes[_COST]):
        yield api_errors.invalid_value(f"{path}[{_COST}]", notes[_COST], "must be a 32bit integer")
    for key in sorted(notes):
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            profile = notes[key]
            key_path = f"{path}.{key}"
            if profile not in ("runtime/default", "docker/default", "unconfined"):
                if profile.startswith(_LOCAL):
                    yield from validation.local_descending_path(profile.removeprefix(_LOCAL), key_path)
                else:
                    yield api_errors.invalid_value(key_path, profile, "must be a valid seccomp profile")
    names = {c.get("name", "") for key in _CONTAINERS for c in spec.get(key) or ()}
    for key in sorted(notes):
        if key.startswith(APPARMOR):
            yield from _apparmor(key, notes[key], names, f"{path}[{key}]")


def _fits(text: str) -> bool:
    return re.fullmatch(r"0|-?[1-9][0-9]*|-0[0-9]*", text) is not None and -(1 << 31) <= int(text) < 1 << 31


def _apparmor(key: str, profile: str, names: set[str], path: str) -> Iterator[Cause]:
    name = key.removeprefix(APPARMOR)
    if name not in names:
        yield api_errors.invalid_value(path, name, "container not found")
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCAL):
        yield api_errors.invalid_value(path, profile, f"invalid AppArmor profile name: {api_errors.quoted(profile)}")


def validate_annotations_update(now: Mapping[str, str], before: Mapping[str, str], path: str) -> Iterator[Cause]:
    """Validate an update: some annotations are immutable."""
    for key in sorted(before):
        word = _immutable_annotation(key)
        if word and now.get(key, "") != before[key]:
            yield api_errors.not_allowed(f"{path}[{key}]", f"may not remove or update {word}")
    for key in sorted(now.keys() - before.keys()):
        word = _immutable_annotation(key)
        if word:
            yield api_errors.not_allowed(f"{path}[{key}]", f"may not add {word}")


def _immutable_annotation(key: str) -> str:
    if key.startswith(APPARMOR):
        return "AppArmor annotations"
    return "mirror pod annotation" if key == MIRROR else ""
