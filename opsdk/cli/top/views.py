"""The views of the console."""

from __future__ import annotations

from enum import Enum


class TopView(Enum):
    """One table of the console. The value is its title; the place in this list is its key."""

    CONTROLLERS = "controllers"
    QUEUES = "queues"
    RUNNING = "running"
    RETRIES = "retries"
    ERRORS = "errors"
    SLOWEST = "slowest"
    CACHES = "caches"
    LEASES = "leases"

    @property
    def number(self) -> int:
        """The digit that selects the view."""
        return list(TopView).index(self) + 1
