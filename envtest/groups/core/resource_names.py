"""Resource names and quantities in limits and quotas. Pure.

Upstream: pkg/apis/core/helper/helpers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envtest.groups.common import validation
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.validation import qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause

COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
COUNTED: Final = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
"""Resources of quotas that come in whole numbers."""
QUOTA: Final = frozenset(
    {
        *COMPUTE, *COUNTED, "requests.storage",
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in COMPUTE),
    }
)  # fmt: skip
_STANDARD: Final = QUOTA | {"storage"}
_HUGE: Final = "hugepages-"


def native(name: str) -> bool:
    """Whether it is one of Kubernetes' own resources."""
    return "/" not in name or "kubernetes.io/" in name


def extended(name: str) -> bool:
    """Whether it is a resource that somebody else named, such as ``example.com/gpu``."""
    return not native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")


def overcommitted(name: str) -> bool:
    """Whether limits may be higher than requests."""
    return native(name) and not name.startswith(_HUGE)


def _huge_quota(name: str) -> bool:
    return name.startswith((_HUGE, f"requests.{_HUGE}"))


def of_quota(name: str) -> bool:
    """Whether quotas know it without a prefix."""
    return name in QUOTA or _huge_quota(name)


def standard_name(name: str, path: str) -> Iterator[Cause]:
    """A well-known name, or one with a domain."""
    wrong = qualified_name(name)
    yield from validation.each(wrong, name, path)
    if not wrong and "/" not in name and name not in _STANDARD and not _huge_quota(name):
        yield api_errors.invalid_value(path, name, "must be a standard resource type or fully qualified")


def quota_name(name: str, path: str) -> Iterator[Cause]:
    """A name that quotas know."""
    yield from standard_name(name, path)
    if "/" not in name and not of_quota(name):
        yield api_errors.invalid_value(path, name, "must be a standard resource for quota")


def container_name(name: str, path: str) -> Iterator[Cause]:
    """A name that containers may ask for."""
    yield from standard_name(name, path)
    if "/" not in name:
        if name not in COMPUTE and not name.startswith(_HUGE):
            yield api_errors.invalid_value(path, name, "must be a standard resource for containers")
    elif not native(name) and not extended(name):
        yield api_errors.invalid_value(path, name, "doesn't follow extended resource name standard")


def amount(name: str, text: str, path: str) -> Iterator[Cause]:
    """Not negative, and whole where it counts something."""
    quantity = Quantity(text)
    if quantity.value < 0:
        yield api_errors.invalid_value(path, text, validation.NOT_NEGATIVE)
    if (name in COUNTED or extended(name)) and not quantity.whole:
        yield api_errors.invalid_value(path, text, "must be an integer")
