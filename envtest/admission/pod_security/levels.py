"""The Pod Security level and version that a namespace's labels select. Pure.

Upstream: k8s.io/pod-security-admission/api/helpers.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from opsdk.apiserver import api_errors
from opsdk.errors import Cause

PREFIX: Final = "pod-security.kubernetes.io/"
LEVELS: Final[Sequence[str]] = ("privileged", "baseline", "restricted")
"""From the most permissive to the most restrictive."""
_MODES: Final = ("enforce", "audit", "warn")
_VERSION: Final = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")
LATEST: Final = 1 << 30
"""The version that has every check."""


class LevelVersion(msgspec.Struct, frozen=True):
    """A level of the Pod Security Standards in the version of a Kubernetes minor release."""

    level: str = "privileged"
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    @property
    def lenient(self) -> bool:
        """Whether the level is privileged, which allows everything."""
        return self.level == "privileged"

    @property
    def strictness(self) -> int:
        """The index in `LEVELS`: restricted is the highest."""
        return LEVELS.index(self.level)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The levels that a namespace enforces, audits and warns about."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def lenient(self) -> bool:
        """Whether all three levels are privileged."""
        return self.enforce.lenient and self.audit.lenient and self.warn.lenient


def policy_of(labels: Mapping[str, str] | None) -> tuple[Policy, list[Cause]]:
    """Return the policy of a namespace, and the errors of its labels.

    An unknown level means restricted for enforce, and privileged for audit and warn. Without a warn label, warn
    follows enforce.
    """
    values, wrong = labels or {}, list[Cause]()
    demands = {mode: _demand(values, mode, wrong) for mode in _MODES}
    enforce, warn = demands["enforce"], demands["warn"]
    enforced = values.get(f"{PREFIX}enforce") in LEVELS
    if f"{PREFIX}warn" not in values and enforced and enforce.strictness > warn.strictness:
        minor = warn.minor if f"{PREFIX}warn-version" in values else enforce.minor
        demands["warn"] = LevelVersion(enforce.level, minor)
    return Policy(**demands), wrong


def _demand(labels: Mapping[str, str], mode: str, wrong: list[Cause]) -> LevelVersion:
    """Return the level and version that a mode's labels ask for; what is wrong with them goes to `wrong`."""
    level, minor = "privileged", LATEST
    name = f"{PREFIX}{mode}"
    if name in labels:
        level = labels[name]
        if level not in LEVELS:
            text = f"must be one of {', '.join(LEVELS)}"
            wrong.append(api_errors.invalid_value(f"metadata.labels[{name}]", level, text))
            level = "restricted" if mode == "enforce" else "privileged"
    name = f"{name}-version"
    if name in labels:
        version = labels[name]
        match = _VERSION.fullmatch(version)
        if match is not None:
            minor = int(match.group(1))
        elif version != "latest":
            text = 'must be "latest" or "v1.x"'
            wrong.append(api_errors.invalid_value(f"metadata.labels[{name}]", version, text))
    return LevelVersion(level, minor)
