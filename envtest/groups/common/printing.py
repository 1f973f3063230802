"""Helpers for table rows as kubectl prints them.

Upstream: pkg/printers (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from envtest.data.columns import CREATED, NAME, columns_of
from envtest.data.versions import DEFAULT
from envtest.groups.common.label_selectors import selector_text
from opsdk.apiserver.resources import Printer, TableColumn
from opsdk.structured_merge.value import JsonObject, JsonValue

Cells = Callable[[JsonObject, float], list[JsonValue]]
RowConditions = Callable[[JsonObject], Sequence[JsonObject]]
Order = Callable[[JsonObject], JsonValue]
NOTHING = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
_NEVER = "0001-01-01T00:00:00Z"


def seconds_of(stamp: str) -> float | None:
    """Return a timestamp in Unix seconds; None if it does not parse."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl prints ages.

    >>> human_duration(90), human_duration(125), human_duration(3 * 3600), human_duration(5 * 86400)
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


def age(obj: JsonObject, now: float) -> str:
    """Return the age of an object as kubectl prints it."""
    return since((obj.get("metadata") or {}).get("creationTimestamp", ""), now)


def since(stamp: str, now: float) -> str:
    """Return the time since a timestamp as kubectl prints it."""
    moment = seconds_of(stamp) if stamp else None
    return "<unknown>" if moment is None else human_duration(now - moment)


def meta_of(obj: JsonObject) -> JsonObject:
    """Return the metadata."""
    return obj.get("metadata") or {}


def spec_of(obj: JsonObject) -> JsonObject:
    """Return the spec."""
    return obj.get("spec") or {}


def status_of(obj: JsonObject) -> JsonObject:
    """Return the status."""
    return obj.get("status") or {}


def name_of(obj: JsonObject) -> str:
    """Return the name."""
    return str(meta_of(obj).get("name", ""))


def joined(items: Iterable[str], *, most: int = 3) -> str:
    """Join the first items, and add how many more there are.

    >>> joined("abc"), joined("abcde"), joined("")
    ('a,b,c', 'a,b,c + 2 more...', '')
    """
    texts = list(items)
    more = f" + {len(texts) - most} more..." if len(texts) > most else ""
    return ",".join(texts[:most]) + more


def label_selector(selector: JsonObject | None) -> str:
    """Return a label selector, or a map of labels, as one line."""
    return selector_text(selector or {}) or NOTHING


def yes(value: JsonValue) -> str:
    """Return an optional boolean as text."""
    return UNSET if value is None else str(bool(value))


class DefaultPrinter(Printer):
    """Prints the name and the creation timestamp."""

    columns: Sequence[TableColumn] = (NAME, CREATED)

    def cells(self, obj: JsonObject, now: float) -> list[JsonValue]:
        meta = obj.get("metadata") or {}
        return [meta.get("name", ""), meta.get("creationTimestamp") or _NEVER]


class KindPrinter(Printer):
    """Prints the columns of ``group/resource`` with a function.

    Args:
        conditions: returns the conditions of a row, such as Completed.
        order: the sort key of lists; None keeps their order.
        version: the version of Kubernetes that has these columns.
    """

    def __init__(
        self,
        key: str,
        cells: Cells,
        *,
        conditions: RowConditions | None = None,
        order: Order | None = None,
        version: str = DEFAULT,
    ) -> None:
        self._key = key
        self._cells = cells
        self._conditions = conditions
        self._order = order
        self._version = version

    def in_version(self, version: str) -> KindPrinter:
        """Return the printer of the kind in a version of Kubernetes."""
        if version == self._version:
            return self
        return KindPrinter(self._key, self._cells, conditions=self._conditions, order=self._order, version=version)

    def __repr__(self) -> str:
        return f"<KindPrinter of {self._key}>"

    @property
    def columns(self) -> Sequence[TableColumn]:
        return columns_of(self._key, self._version)

    def conditions(self, obj: JsonObject) -> Sequence[JsonObject]:
        return () if self._conditions is None else self._conditions(obj)

    def arranged(self, objects: Sequence[JsonObject]) -> Sequence[JsonObject]:
        return objects if self._order is None else sorted(objects, key=self._order)

    def cells(self, obj: JsonObject, now: float) -> list[JsonValue]:
        return self._cells(obj, now)


def images(template: JsonObject) -> list[str]:
    """Return the names and the images of a template's containers."""
    containers = spec_of(template).get("containers") or ()
    return [",".join(c.get(key, "") for c in containers) for key in ("name", "image")]


def condition_of(obj: JsonObject, kind: str) -> JsonObject | None:
    """Return the condition of a type; None if the object has none."""
    conditions: Sequence[JsonObject] = status_of(obj).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == kind), None)


# ------------------------------------------------------------------ services
def load_balancers(obj: JsonObject) -> list[str]:
    """Return the distinct load balancer addresses of a status."""
    ingress = (status_of(obj).get("loadBalancer") or {}).get("ingress") or ()
    return sorted({str(i.get("ip") or i.get("hostname")) for i in ingress if i.get("ip") or i.get("hostname")})


def kind_printers(cells: Mapping[str, Cells]) -> dict[str, KindPrinter]:
    """Return printers, by ``group/resource``, for functions that return cells."""
    return {key: KindPrinter(key, fill) for key, fill in cells.items()}
