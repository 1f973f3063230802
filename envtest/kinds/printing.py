"""Rows of tables: what kubectl prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from envtest.kinds.scale import selector_text
from opsdk.apiserver.resources import Column
from opsdk.apiserver.storage.ports import Tree

Cells = Callable[[Tree, float], list[Any]]
RowConditions = Callable[[Tree], Sequence[Tree]]
NOTHING = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
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


def text(name: str, *, wide: bool = False, description: str = "") -> Column:
    """A column of strings; `wide` ones show in wide output only."""
    return Column(name=name, priority=1 if wide else 0, description=description)


def wide(*names: str) -> tuple[Column, ...]:
    """Columns that show in wide output only."""
    return tuple(text(n, wide=True) for n in names)


def count(name: str, *, description: str = "") -> Column:
    """A column of integers."""
    return Column(name=name, type="integer", description=description)


def flag(name: str) -> Column:
    """A column of truth values."""
    return Column(name=name, type="boolean")


def meta_of(obj: Tree) -> Tree:
    """Its metadata."""
    return obj.get("metadata") or {}


def spec_of(obj: Tree) -> Tree:
    """Its spec."""
    return obj.get("spec") or {}


def status_of(obj: Tree) -> Tree:
    """Its status."""
    return obj.get("status") or {}


def name_of(obj: Tree) -> str:
    """Its name."""
    return str(meta_of(obj).get("name", ""))


def joined(items: Iterable[str], *, most: int = 3, none: str = NOTHING) -> str:
    """The first of the items, and how many more there are.

    >>> joined("abc"), joined("abcde"), joined("")
    ('a,b,c', 'a,b,c + 2 more...', '<none>')
    """
    found = list(items)
    more = f" + {len(found) - most} more..." if len(found) > most else ""
    return ",".join(found[:most]) + more if found else none


def label_selector(selector: Tree | None) -> str:
    """A label selector, or a plain map of labels, as one line."""
    return selector_text(selector or {}) or NOTHING


def yes(value: Any) -> str:
    """A truth value behind a pointer."""
    return UNSET if value is None else str(bool(value))


class DefaultPrinter:
    """Name and creation."""

    columns: Sequence[Column] = (NAME, CREATED)

    def conditions(self, obj: Tree) -> Sequence[Tree]:  # noqa: ARG002 - the shape of Printer
        """See `Printer`."""
        return ()

    def cells(self, obj: Tree, now: float) -> list[Any]:  # noqa: ARG002 - the shape of Printer
        """See `Printer`."""
        meta = obj.get("metadata") or {}
        return [meta.get("name", ""), meta.get("creationTimestamp")]


class KindPrinter:
    """Columns with a function that fills them."""

    def __init__(self, columns: Sequence[Column], cells: Cells, conditions: RowConditions | None = None) -> None:
        self.columns = columns
        self._cells = cells
        self._conditions = conditions

    def conditions(self, obj: Tree) -> Sequence[Tree]:
        """See `Printer`."""
        return () if self._conditions is None else self._conditions(obj)

    def cells(self, obj: Tree, now: float) -> list[Any]:
        """See `Printer`."""
        return self._cells(obj, now)


def made(*columns: Column | str, cells: Cells, conditions: RowConditions | None = None) -> KindPrinter:
    """A printer whose first column is the name."""
    return KindPrinter([NAME, *(c if isinstance(c, Column) else text(c) for c in columns)], cells, conditions)
