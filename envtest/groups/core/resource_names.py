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
"""Resources whose quota must be an integer."""
QUOTA: Final = frozenset(
    {
        *COMPUTE, *COUNTED, "requests.storage",
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in COMPUTE),
    }
)  # fmt: skip
_STANDARD: Final = QUOTA | {"storage"}
_HUGE: Final = "hugepages-"


def is_native(name: str) -> bool:
    """Return whether a resource name has no domain, or one of ``kubernetes.io``."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether a resource is an extended resource, such as ``example.com/gpu``."""
    return not is_native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")


def is_overcommit_allowed(name: str) -> bool:
    """Return whether limits of a resource may exceed its requests."""
    return is_native(name) and not name.startswith(_HUGE)


def _huge_quota(name: str) -> bool:
    return name.startswith((_HUGE, f"requests.{_HUGE}"))


def is_quota_name(name: str) -> bool:
    """Return whether a quota can limit the resource by this name."""
    return name in QUOTA or _huge_quota(name)


def standard_name(name: str, path: str) -> Iterator[Cause]:
    """Validate that a resource name is well-known or has a domain."""
    wrong = qualified_name(name)
    yield from validation.each(wrong, name, path)
    if not wrong and "/" not in name and name not in _STANDARD and not _huge_quota(name):
        yield api_errors.invalid_value(path, name, "must be a standard resource type or fully qualified")


def quota_name(name: str, path: str) -> Iterator[Cause]:
    """Validate a resource name in a quota."""
    yield from standard_name(name, path)
    if "/" not in name and not is_quota_name(name):
        yield api_errors.invalid_value(path, name, "must be a standard resource for quota")


def container_name(name: str, path: str) -> Iterator[Cause]:
    """Validate a resource name in a container."""
    yield from standard_name(name, path)
    if "/" not in name:
        if name not in COMPUTE and not name.startswith(_HUGE):
            yield api_errors.invalid_value(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield api_errors.invalid_value(path, name, "doesn't follow extended resource name standard")


def amount(name: str, text: str, path: str) -> Iterator[Cause]:
    """Validate that a quantity is not negative, and is an integer where the resource requires it."""
    quantity = Quantity(text)
    if quantity.value < 0:
        yield api_errors.invalid_value(path, text, validation.NOT_NEGATIVE)
    if (name in COUNTED or is_extended(name)) and not quantity.whole:
        yield api_errors.invalid_value(path, text, "must be an integer")
