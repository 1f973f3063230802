# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Kinds whose strategy is nothing but functions on objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envtest.kinds.base import TableStrategy
from envtest.tables.load import Row
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import FieldGetter
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.tree_copy import copy_tree
from opsdk.errors import Cause

New = Callable[[Tree], Iterator[Cause]]
Changed = Callable[[Tree, Tree], Iterator[Cause]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is wrong with an object of a kind.

    Attributes:
        new: rules of a new object, and of a changed one where there is no `changed`.
        status: rules of a changed status.
        initial_status: the status of a new object; None keeps what the client sent.
        selectable: field selectors besides name and namespace.
    """

    new: New
    changed: Changed | None = None
    status: Changed | None = None
    initial_status: Tree | None = field(default_factory=dict)
    selectable: Mapping[str, FieldGetter] = field(default_factory=dict)


class RuledStrategy(TableStrategy):
    """See `Rules`."""

    def __init__(self, row: Row, has_status: bool, rules: Rules) -> None:
        super().__init__(row, has_status=has_status)
        self._rules = rules
        self.selectable = rules.selectable

    def initial_status(self, obj: Tree) -> Tree:
        """See `Rules`."""
        if self._rules.initial_status is None:
            return obj.get("status") or {}
        made: Tree = copy_tree(self._rules.initial_status)
        return made

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:
        """See `Rules`."""
        return list(self._rules.new(obj))

    def validate_update(self, context: Context, obj: Tree, old: Tree) -> Sequence[Cause]:
        """See `Rules`."""
        return list(self._rules.new(obj) if self._rules.changed is None else self._rules.changed(obj, old))

    def validate_status(self, context: Context, obj: Tree, old: Tree) -> Sequence[Cause]:
        """See `Rules`."""
        return list(self._rules.status(obj, old)) if self._rules.status is not None else ()
