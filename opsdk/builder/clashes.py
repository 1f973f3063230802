"""Finds two writers of one thing among the controllers of an operator. Pure.

Two controllers that write the same condition of a kind overwrite each other at each reconcile. Of two controllers with
one finalizer, the first one removes it before the other one has cleaned up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opsdk.builder.rbac import DeclaredController
from opsdk.controller.options import ControllerOptions
from opsdk.controller.reverse_deletion import children_finalizer
from opsdk.controller.steps.last_reconciled import ANNOTATION
from opsdk.errors import UsageError


def check_clashes(
    declared: DeclaredController, others: Iterable[DeclaredController], *, default: ControllerOptions, owner: str
) -> None:
    """Raise `UsageError` if a controller writes what another controller of its kind writes, or opsdk itself.

    Args:
        declared: the new controller.
        others: the controllers that were declared before.
        default: the options of controllers without their own.
        owner: the field owner of the operator.
    """
    kind = declared.kinds.kind
    if kind is None:
        return
    if (own := children_finalizer(owner, declared.name)) in declared.finalizers:
        raise UsageError(f"opsdk adds the finalizer {own!r} itself, to delete children: choose another name")
    written = list(_written(declared, declared.effective_options(default)))
    for other in others:
        if other.kinds.kind is None or other.kinds.kind.gvk.group_kind != kind.gvk.group_kind:
            continue
        if shared := [text for text in _written(other, other.effective_options(default)) if text in written]:
            raise UsageError(
                f"controllers {other.name} and {declared.name} both write {shared[0]} of {kind.name}, and would "
                "overwrite each other: choose another name in one of them"
            )


def _written(declared: DeclaredController, options: ControllerOptions) -> Iterator[str]:
    """Return what a controller writes to its objects, in words."""
    conditions = (options.error_condition, options.ready_condition)
    yield from (f"the condition {condition!r}" for condition in conditions if condition)
    if options.last_reconciled != ANNOTATION and options.last_reconciled:
        yield f"the field {options.last_reconciled!r}"
    yield from (f"the field 'status.{external.name}'" for external in declared.externals)
    yield from (f"the finalizer {finalizer!r}" for finalizer in declared.finalizers)
