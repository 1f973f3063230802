"""Rows of tables: what kubectl prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from opsdk.apiserver.resources import Column
from opsdk.apiserver.storage.ports import Tree

Cells = Callable[[Tree, float], list[Any]]
NAME = Column(
    name="Name",
    format="name",
    description=(
        "Name must be unique within a namespace. Is required when creating resources, although some resources may"
        " allow a client to request the generation of an appropriate name automatically. Name is primarily intended"
        " for creation idempotence and configuration definition. Cannot be updated. More info:"
        " https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
)
_CREATED_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed"
    " to be set in happens-before order across separate operations. Clients may not set this value. It is represented"
    " in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info:"
    " https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
CREATED = Column(name="Created At", type="date", description=_CREATED_TEXT)
AGE = Column(name="Age", description=_CREATED_TEXT)


def seconds_of(stamp: str) -> float | None:
    """A timestamp in Unix seconds; None where it is none."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None


def human(seconds: float) -> str:
    """A duration as kubectl shows ages: two units while it is young, one later.

    >>> human(90), human(125), human(3 * 3600), human(5 * 86400)
    ('90s', '2m5s', '3h', '5d')
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return _pair(years, "y", rest, "d") if years < 8 else f"{years}y"


def _pair(large: int, one: str, small: int, other: str) -> str:
    return f"{large}{one}{small}{other}" if small else f"{large}{one}"


def age(obj: Tree, now: float) -> str:
    """How old an object is."""
    return since((obj.get("metadata") or {}).get("creationTimestamp", ""), now)


def since(stamp: str, now: float) -> str:
    """How long ago a timestamp was."""
    moment = seconds_of(stamp) if stamp else None
    return "<unknown>" if moment is None else human(now - moment)


class DefaultPrinter:
    """Name and creation."""

    columns: Sequence[Column] = (NAME, CREATED)

    def cells(self, obj: Tree, now: float) -> list[Any]:  # noqa: ARG002 - the shape of Printer
        """See `Printer`."""
        meta = obj.get("metadata") or {}
        return [meta.get("name", ""), meta.get("creationTimestamp")]


class KindPrinter:
    """Columns with a function that fills them."""

    def __init__(self, columns: Sequence[Column], cells: Cells) -> None:
        self.columns = columns
        self._cells = cells

    def cells(self, obj: Tree, now: float) -> list[Any]:
        """See `Printer`."""
        return self._cells(obj, now)
