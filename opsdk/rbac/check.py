"""Mode of the permission check at the start of an operator."""

from __future__ import annotations

from enum import Enum

__all__ = ["RbacCheck"]


class RbacCheck(Enum):
    """Action at the start when a declared permission is missing."""

    ERROR = "error"
    """The operator ends with `MissingPermissionsError` before its caches and controllers start."""
    WARN = "warn"
    """The operator logs the same text once, and does not wait for the reviews."""
    OFF = "off"
    """Nothing is reviewed."""
