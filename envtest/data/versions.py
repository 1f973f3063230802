"""The versions of Kubernetes that the server can serve."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from opsdk.errors import ConfigError


class KubernetesVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version that can be served.

    Attributes:
        git_version: the release that the tables are of.
        go_version: the release of Go that builds it.
        build_date: the date that ``/version`` shows.
    """

    git_version: str
    go_version: str
    build_date: str = "2026-01-01T00:00:00Z"

    @property
    def minor(self) -> int:
        """The minor version: 36 for v1.36.2."""
        return int(self.git_version.split(".")[1])


DEFAULT: Final = "1.36"
"""The version whose answers were compared with recordings of kube-apiserver."""
VERSIONS: Final[Mapping[str, KubernetesVersion]] = {
    "1.35": KubernetesVersion(git_version="v1.35.0", go_version="go1.25.5", build_date="2025-12-17T00:00:00Z"),
    DEFAULT: KubernetesVersion(git_version="v1.36.2", go_version="go1.26"),
    "1.37": KubernetesVersion(git_version="v1.37.0", go_version="go1.26", build_date="2026-08-26T00:00:00Z"),
}
VARIABLE: Final = "OPSDK_KUBERNETES_VERSION"
"""The environment variable that chooses the version where no option does."""
_VERSION = re.compile(r"v?(?P<minor>\d+\.\d+)(?:\.\d+)?(?:[-+].*)?")


def minor_of(text: str) -> str:
    """Return the minor version in the text of a version; empty if it is not a version.

    >>> minor_of("v1.36.2"), minor_of("1.35.1-eks-abc"), minor_of("new")
    ('1.36', '1.35', '')
    """
    match = _VERSION.fullmatch(text.strip())
    return match["minor"] if match else ""


def parse_version(text: str) -> str:
    """Return the minor version that a text names, such as ``1.36``, ``v1.36`` or ``1.36.2``.

    Raises:
        ConfigError: if the text is not a version, or the version is not among `VERSIONS`.

    >>> parse_version("v1.36.2"), parse_version("1.35")
    ('1.36', '1.35')
    """
    choices = ", ".join(VERSIONS)
    minor = minor_of(text)
    if not minor:
        raise ConfigError(f"{text!r} is not a version of Kubernetes: give one of {choices}")
    if minor in VERSIONS:
        return minor
    versions = [tuple(map(int, version.split("."))) for version in VERSIONS]
    age = "older" if tuple(map(int, minor.split("."))) < min(versions) else "newer"
    raise ConfigError(
        f"Kubernetes {minor} is {age} than the versions that envtest serves: give one of {choices},"
        " or use a real API server of that version"
    )


def chosen_version(version: str | None) -> str:
    """Return the minor version of an option; without one, that of the environment variable, or the default.

    Raises:
        ConfigError: as `parse_version`; the message names the variable if it is the reason.
    """
    if version is not None:
        return parse_version(version)
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT
    try:
        return parse_version(text)
    except ConfigError as error:
        raise ConfigError(f"{VARIABLE}: {error}") from error
