"""Which strategy, defaults and printer a built-in resource has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from envtest.kinds.base import TableStrategy
from envtest.kinds.typed import Defaults
from envtest.tables.load import Row
from opsdk.apiserver.resources import Printer


@dataclass(slots=True)
class Catalogue:
    """Hand-written parts by ``group/resource``; whatever is not listed follows from the tables alone."""

    strategies: Mapping[str, Callable[[Row, bool], TableStrategy]] = field(default_factory=dict)
    defaults: Mapping[str, Defaults] = field(default_factory=dict)
    printers: Mapping[str, Printer] = field(default_factory=dict)

    def strategy(self, row: Row, *, has_status: bool) -> TableStrategy:
        """The rules of a resource."""
        made = self.strategies.get(_key(row))
        return made(row, has_status) if made is not None else TableStrategy(row, has_status=has_status)

    def defaults_of(self, row: Row) -> Defaults | None:
        """What fills in the defaults of its kind."""
        return self.defaults.get(_key(row))

    def printer(self, row: Row) -> Printer | None:
        """Its columns; scales have their own, whatever they belong to."""
        return self.printers.get("/scale" if row.info.subresource == "scale" else _key(row))


def _key(row: Row) -> str:
    return f"{row.info.group}/{row.info.resource}"
