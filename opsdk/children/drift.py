"""What happens when another manager changed a field that an operator had applied."""

from __future__ import annotations

from enum import Enum


class Drift(Enum):
    """What `opsdk.children.applier.Applier` does when another manager changed a field that it had applied."""

    REPAIR = "repair"
    """Apply the desired value again."""
    LEAVE = "leave"
    """Keep the other manager's value. The drift is explained once for each version of the object.

    After a restart, a new desired field that another manager owns counts as drift too.
    """
