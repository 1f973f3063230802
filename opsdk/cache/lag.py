"""How far an informer is behind the server, from polls of the server's resource version. Pure.

States::

    UNKNOWN --poll--> CURRENT   the watch has shown the resource version of the list, or a second watch shows no change
                      BEHIND    a second watch shows a change that the informer's watch has not shown

A list has the resource version of the whole storage. A watch shows it only with the next change or bookmark of its
kind, for a quiet kind after up to a minute. So a newer list alone does not mean that a change is missing.

Upstream: k8s.io/apimachinery/pkg/util/resourceversion (v1.36); kubernetes/enhancements KEP-5504, KEP-5647
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, NamedTuple

__all__ = ["InformerLag", "LagState", "compare_resource_versions"]

# KEP-5504 promises at most 128 bits.
_MAX_DIGITS: Final = 39
# Polls that the watch has not passed. The oldest one counts, so later ones may be missing.
_MAX_POLLS: Final = 64


def compare_resource_versions(first: str, second: str) -> int | None:
    """Return a negative number, 0, or a positive one, like ``cmp``; None if they are not comparable.

    Kubernetes promises from 1.35 on that resource versions are decimal numbers that grow. An aggregated API server may
    have others. Both must be of one resource.

    >>> compare_resource_versions("99", "100")
    -1
    >>> compare_resource_versions("v7", "100") is None
    True
    """
    if not (_is_comparable(first) and _is_comparable(second)):
        return None
    lengths = len(first) - len(second)
    return lengths or (first > second) - (first < second)


def _is_comparable(version: str) -> bool:
    return 0 < len(version) <= _MAX_DIGITS and version.isascii() and version.isdecimal() and version[0] != "0"


class LagState(Enum):
    """What the last poll has found."""

    UNKNOWN = "unknown"
    """No poll has succeeded lately, or the resource versions are not comparable."""
    CURRENT = "current"
    """No change was missing."""
    BEHIND = "behind"
    """A change was missing, or the server went back."""


class _Poll(NamedTuple):
    resource_version: str
    polled_at: float


class InformerLag:
    """The lag of one informer."""

    def __init__(self) -> None:
        self.state = LagState.UNKNOWN
        self._not_shown: deque[_Poll] = deque()
        self._went_back_at: float | None = None

    def listed(self, resource_version: str, *, before: str, shown: str, now: float) -> bool:
        """Record the resource version of a list. Returns whether a second watch has to decide about it.

        Args:
            resource_version: of the list.
            before: what the informer's watch had shown when the list was requested.
            shown: what it has shown now.
            now: the time of the response.
        """
        order, went_back = (compare_resource_versions(resource_version, version) for version in (shown, before))
        if order is None or went_back is None:
            self.reset()
            return False
        if went_back < 0:
            # A list is never older than what was seen before its request, unless the server lost data. A watch from
            # the future stays silent then, so it decides nothing.
            self.state = LagState.BEHIND
            self._went_back_at = now if self._went_back_at is None else self._went_back_at
            return False
        self._went_back_at = None
        self._drop_shown(shown)
        if order <= 0:
            self.state = LagState.CURRENT
            return False
        if len(self._not_shown) < _MAX_POLLS:
            self._not_shown.append(_Poll(resource_version, now))
        return True

    def compared(self, *, missing: bool) -> None:
        """Record what a second watch from the informer's resource version has shown.

        Args:
            missing: it has shown a change, or the server no longer has the changes after that resource version.
        """
        self.state = LagState.BEHIND if missing else LagState.CURRENT
        if not missing:
            self._not_shown.clear()

    def failed(self) -> None:
        """A poll failed. A lag that is known continues to grow; else it is not known."""
        if self.state is not LagState.BEHIND:
            self.reset()

    def reset(self) -> None:
        """Forget everything, for example because the informer lists."""
        self.state = LagState.UNKNOWN
        self._not_shown.clear()
        self._went_back_at = None

    def seconds(self, shown: str, now: float) -> float | None:
        """Return the time since the first poll with a change that the watch has not shown; 0 without one.

        None if it is not known. The true lag is up to one interval longer.
        """
        if self.state is LagState.UNKNOWN:
            return None
        self._drop_shown(shown)
        if self.state is LagState.CURRENT:
            return 0.0
        if self._went_back_at is not None:
            return now - self._went_back_at
        return now - self._not_shown[0].polled_at if self._not_shown else 0.0

    def _drop_shown(self, shown: str) -> None:
        polls = self._not_shown
        while polls and (compare_resource_versions(polls[0].resource_version, shown) or 0) <= 0:
            polls.popleft()

    def __repr__(self) -> str:
        return f"<InformerLag {self.state.value}, {len(self._not_shown)} polls not shown>"
