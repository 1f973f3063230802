# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Kinds whose strategy is nothing but functions on objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envtest.kinds.base import TableStrategy
from envtest.tables.load import Row
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import FieldGetter
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import ApiError, Cause
from opsdk.structured_merge.value import JsonObject

New = Callable[[JsonObject], Iterator[Cause]]
Changed = Callable[[JsonObject, JsonObject], Iterator[Cause]]
Prepare = Callable[[Context, JsonObject, JsonObject | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is wrong with an object of a kind.

    Attributes:
        new: rules of a new object, and of a changed one where there is no `changed`.
        status: rules of a changed status.
        initial_status: the status of a new object; None keeps what the client sent.
        selectable: field selectors besides name and namespace.
        warnings: what makers and changers of an object should know.
        prepare: what the server fills in, or takes away, when an object is new or replaces another one.
        name: why a name is none; None goes by the tables.
        counted: a part of the metadata that counts for the generation.
        wrong_field: how an unknown field selector is refused, where the kind has words of its own.
    """

    new: New
    changed: Changed | None = None
    status: Changed | None = None
    initial_status: JsonObject | None = field(default_factory=dict)
    selectable: Mapping[str, FieldGetter] = field(default_factory=dict)
    warnings: Callable[[JsonObject, JsonObject | None], Iterable[str]] | None = None
    prepare: Prepare | None = None
    name: Callable[[str], Sequence[str]] | None = None
    counted: Callable[[JsonObject], object] | None = None
    wrong_field: str = ""


class RuledStrategy(TableStrategy):
    """See `Rules`."""

    def __init__(self, row: Row, has_status: bool, rules: Rules) -> None:
        super().__init__(row, has_status=has_status)
        self._rules = rules
        self.selectable = rules.selectable

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """See `Rules`."""
        return super().name_rule(name, prefix=prefix) if self._rules.name is None else self._rules.name(name)

    def initial_status(self, obj: JsonObject) -> JsonObject:
        """See `Rules`."""
        if self._rules.initial_status is None:
            return obj.get("status") or {}
        made: JsonObject = copy_tree(self._rules.initial_status)
        return made

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """See `Rules`."""
        super().prepare_for_create(context, obj)
        self._prepare(context, obj, None)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """See `Rules`."""
        super().prepare_for_update(context, obj, old)
        self._prepare(context, obj, old)

    def _prepare(self, context: Context, obj: JsonObject, old: JsonObject | None) -> None:
        if self._rules.prepare is not None:
            self._rules.prepare(context, obj, old)

    def generation_changed(self, obj: JsonObject, old: JsonObject) -> bool:
        """See `Rules`."""
        counted = self._rules.counted
        return super().generation_changed(obj, old) or (counted is not None and counted(obj) != counted(old))

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """See `Rules`."""
        return list(self._rules.new(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """See `Rules`."""
        return list(self._rules.new(obj) if self._rules.changed is None else self._rules.changed(obj, old))

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """See `Rules`."""
        return list(self._rules.status(obj, old)) if self._rules.status is not None else ()

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """See `Rules`."""
        return list(self._rules.warnings(obj, old)) if self._rules.warnings is not None else ()

    def unknown_field(self, key: str) -> ApiError:
        """See `Rules`."""
        wrong = self._rules.wrong_field
        return api_errors.bad_request(wrong.format(key)) if wrong else super().unknown_field(key)
