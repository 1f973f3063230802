"""The reaction to changes of applied fields by other managers."""

from __future__ import annotations

from enum import Enum

__all__ = ["Drift"]


class Drift(Enum):
    """The reaction of `opsdk.children.applier.Applier` when another manager changed a field that it applied."""

    REPAIR = "repair"
    """Apply the desired value again."""
    LEAVE = "leave"
    """Keep the other manager's value. The drift is explained once for each version of the object.

    After a restart, a new desired field that another manager owns counts as drift too.
    """
