"""What an operator does about missing permissions at its start."""

from __future__ import annotations

from enum import Enum


class RbacCheck(Enum):
    """What happens at the start when a declared permission is missing."""

    ERROR = "error"
    """The operator ends with `MissingPermissionsError` before its caches and controllers start."""
    WARN = "warn"
    """The operator logs the same text once, and does not wait for the reviews."""
    OFF = "off"
    """Nothing is reviewed."""
