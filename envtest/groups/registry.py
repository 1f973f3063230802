"""The strategy, defaulting function and printer of each built-in resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import msgspec

from envtest.data.resources import ServedResourceRow
from envtest.groups.admissionregistration import defaulting as admissionregistration_defaulting
from envtest.groups.admissionregistration import strategy as admissionregistration_strategy
from envtest.groups.apiregistration import defaulting as apiregistration_defaulting
from envtest.groups.apiregistration import strategy as apiregistration_strategy
from envtest.groups.apps import defaulting as apps_defaulting
from envtest.groups.apps import strategy as apps_strategy
from envtest.groups.autoscaling import defaulting as autoscaling_defaulting
from envtest.groups.autoscaling import strategy as autoscaling_strategy
from envtest.groups.batch import defaulting as batch_defaulting
from envtest.groups.batch import strategy as batch_strategy
from envtest.groups.certificates import defaulting as certificates_defaulting
from envtest.groups.certificates import strategy as certificates_strategy
from envtest.groups.common.defaulting import Defaults
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from envtest.groups.coordination import strategy as coordination_strategy
from envtest.groups.core import defaulting as core_defaulting
from envtest.groups.core.strategy import kinds as core_strategy
from envtest.groups.discovery import defaulting as discovery_defaulting
from envtest.groups.discovery import strategy as discovery_strategy
from envtest.groups.events import strategy as events_strategy
from envtest.groups.flowcontrol import defaulting as flowcontrol_defaulting
from envtest.groups.flowcontrol import strategy as flowcontrol_strategy
from envtest.groups.networking import defaulting as networking_defaulting
from envtest.groups.networking import strategy as networking_strategy
from envtest.groups.node import strategy as node_strategy
from envtest.groups.policy import strategy as policy_strategy
from envtest.groups.rbac import defaulting as rbac_defaulting
from envtest.groups.rbac import strategy as rbac_strategy
from envtest.groups.resource import defaulting as resource_defaulting
from envtest.groups.resource import strategy as resource_strategy
from envtest.groups.scheduling import defaulting as scheduling_defaulting
from envtest.groups.scheduling import strategy as scheduling_strategy
from envtest.groups.storage import defaulting as storage_defaulting
from envtest.groups.storage import strategy as storage_strategy
from envtest.groups.storagemigration import strategy as storagemigration_strategy
from opsdk.apiserver.resources import Printer, TableColumn
from opsdk.structured_merge.value import JsonObject, JsonValue


class Catalogue(msgspec.Struct):
    """Strategies, defaults and printers by ``group/resource``; the generated tables cover other kinds."""

    strategies: Mapping[str, Callable[[ServedResourceRow, bool], GeneratedStrategy]] = msgspec.field(
        default_factory=dict
    )
    defaults: Mapping[str, Defaults] = msgspec.field(default_factory=dict)

    def strategy(self, row: ServedResourceRow, *, has_status: bool) -> GeneratedStrategy:
        """Return the strategy of a resource."""
        strategy = self.strategies.get(_key(row))
        return strategy(row, has_status) if strategy is not None else GeneratedStrategy(row, has_status=has_status)

    def defaults_of(self, row: ServedResourceRow) -> Defaults | None:
        """Return the defaulting function of a resource's kind."""
        return self.defaults.get(_key(row))

    def printer(self, row: ServedResourceRow) -> Printer:
        """Return the printer of a resource; scales have their own."""
        return LatePrinter("/scale" if row.info.subresource == "scale" else _key(row), row.kubernetes)


class LatePrinter(Printer):
    """The printer of a ``group/resource``; its module is imported when the first table is printed."""

    def __init__(self, key: str, version: str) -> None:
        self._key = key
        self._version = version

    def __repr__(self) -> str:
        return f"<LatePrinter of {self._key}>"

    @cached_property
    def _printer(self) -> Printer:
        from envtest.groups.printers import printer_of  # noqa: PLC0415 - most tests print no tables

        return printer_of(self._key, self._version)

    @property
    def columns(self) -> Sequence[TableColumn]:
        return self._printer.columns

    def cells(self, obj: JsonObject, now: float) -> list[JsonValue]:
        return self._printer.cells(obj, now)

    def conditions(self, obj: JsonObject) -> Sequence[JsonObject]:
        return self._printer.conditions(obj)

    def arranged(self, objects: Sequence[JsonObject]) -> Sequence[JsonObject]:
        return self._printer.arranged(objects)


def _key(row: ServedResourceRow) -> str:
    return f"{row.info.group}/{row.info.resource}"


STRATEGIES: Mapping[str, StrategyFactory] = {
    **admissionregistration_strategy.STRATEGIES,
    **apiregistration_strategy.STRATEGIES,
    **apps_strategy.STRATEGIES,
    **autoscaling_strategy.STRATEGIES,
    **batch_strategy.STRATEGIES,
    **certificates_strategy.STRATEGIES,
    **coordination_strategy.STRATEGIES,
    **core_strategy.STRATEGIES,
    **discovery_strategy.STRATEGIES,
    **events_strategy.STRATEGIES,
    **flowcontrol_strategy.STRATEGIES,
    **networking_strategy.STRATEGIES,
    **node_strategy.STRATEGIES,
    **policy_strategy.STRATEGIES,
    **rbac_strategy.STRATEGIES,
    **resource_strategy.STRATEGIES,
    **scheduling_strategy.STRATEGIES,
    **storage_strategy.STRATEGIES,
    **storagemigration_strategy.STRATEGIES,
}
DEFAULTS: Mapping[str, Defaults] = {
    **admissionregistration_defaulting.DEFAULTS,
    **apiregistration_defaulting.DEFAULTS,
    **apps_defaulting.DEFAULTS,
    **autoscaling_defaulting.DEFAULTS,
    **batch_defaulting.DEFAULTS,
    **certificates_defaulting.DEFAULTS,
    **core_defaulting.DEFAULTS,
    **discovery_defaulting.DEFAULTS,
    **flowcontrol_defaulting.DEFAULTS,
    **networking_defaulting.DEFAULTS,
    **rbac_defaulting.DEFAULTS,
    **resource_defaulting.DEFAULTS,
    **scheduling_defaulting.DEFAULTS,
    **storage_defaulting.DEFAULTS,
}
"""By ``group/resource``."""


def catalogue(
    strategies: Mapping[str, StrategyFactory] | None = None, defaults: Mapping[str, Defaults] | None = None
) -> Catalogue:
    """Return a new catalogue, since strategies hold allocations. The arguments add kinds of higher layers."""
    return Catalogue(strategies={**STRATEGIES, **(strategies or {})}, defaults={**DEFAULTS, **(defaults or {})})
