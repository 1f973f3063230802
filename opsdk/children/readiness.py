"""Judges whether a child is ready: by the rules of kstatus, a CEL expression, or a function. Pure.

Upstream: sigs.k8s.io/cli-utils/pkg/kstatus; kro has ``readyWhen`` for this, Java Operator SDK ``readyPostcondition``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from opsdk.apimachinery.object import (
    Object,
    TypedObject,
    Unstructured,
    gvk_of,
    origin_of,
    status_class,
    to_dict,
)
from opsdk.base.place import caller_place
from opsdk.base.shortened import shortened
from opsdk.errors import OpsdkError, UsageError
from opsdk.recipes.summaries import Summary, SummaryState, tree_summary, tree_summary_before_rules
from opsdk.structured_merge.value import JsonObject

Ready: TypeAlias = bool | str | Callable[[Any], bool]
"""When a child is ready. True: by `opsdk.recipes.summary`, the rules of kstatus; an object of your own class or a
generated one whose status has conditions is not ready before it has one. A string: a CEL expression over ``self``, the
live object. A function: it gets the live object. False: its state does not matter.

A child that is being deleted, or whose controller has not observed its newest spec, is never ready.
"""

_CURRENT: Final = Summary(SummaryState.CURRENT)
_UNSEEN: Final = Summary(SummaryState.IN_PROGRESS, "its controller has set no condition yet")
# Characters of an expression in a message.
_MAX_EXPRESSION = 120


def check_ready(ready: Ready, name: str) -> None:
    """Raise `UsageError` for a `Ready` that cannot work. `name` is that of the child."""
    value: object = ready
    if isinstance(value, bool):
        return
    if isinstance(value, str):
        # A late import: CEL takes 20 ms, and few operators have an expression.
        from opsdk.children.expression import compile_ready  # noqa: PLC0415

        try:
            compile_ready(value)
        except OpsdkError as error:
            raise UsageError(
                f"{caller_place()}: ready of {name} is not a CEL expression with a bool: {error}\n"
                "write one such as \"self.status.phase == 'Running'\""
            ) from error
        return
    if not callable(value) or isinstance(value, type):
        raise UsageError(
            f"{caller_place()}: ready of {name} is {value!r}: "
            "write True, a CEL expression, or a function of the live object"
        )
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        raise UsageError(
            f"{caller_place()}: the ready function of {name} is async: "
            "declare it with a plain def, and await before the apply"
        )


def judge_ready(obj: Any, ready: Ready) -> Summary:
    """Return the state of a live object, or of an external resource: CURRENT if it is ready.

    Raises what a function raises.
    """
    if ready is False:
        return _CURRENT
    if not isinstance(obj, TypedObject | Unstructured):
        assert callable(ready)
        return _by_function(obj, ready)
    tree = _tree_of(obj)
    if ready is True and not _waits_for_conditions(obj):
        return tree_summary(tree)
    before = tree_summary_before_rules(tree)
    if before is not None:
        return before
    if ready is True:
        return _UNSEEN
    return _by_expression(tree, ready) if isinstance(ready, str) else _by_function(obj, ready)


def _waits_for_conditions(obj: Any) -> bool:
    """Whether the class of a custom resource has conditions, and the object has none.

    For kstatus it is current: it does not know which fields a kind has. So what comes after a new Certificate would not
    wait for its controller.
    """
    if not isinstance(obj, Object):
        return False
    form = status_class(type(obj))
    return hasattr(form, "conditions") and not getattr(obj.status, "conditions", None)


def _tree_of(obj: TypedObject | Unstructured) -> JsonObject:
    """Return the tree of an object. The items of a list have neither ``apiVersion`` nor ``kind``, so both are added."""
    origin = origin_of(obj)
    if origin is None or "kind" in origin:
        return origin or to_dict(obj)
    gvk = gvk_of(obj)
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, **origin}


def _by_function(obj: Any, ready: Callable[[Any], bool]) -> Summary:
    value = ready(obj)
    name = getattr(ready, "__name__", repr(ready))
    if not isinstance(value, bool):
        raise UsageError(f"the ready function {name} returned {value!r}: return True or False")
    return _CURRENT if value else Summary(SummaryState.IN_PROGRESS, f"{name} returned False")


def _by_expression(tree: Any, expression: str) -> Summary:
    """Return the state by a CEL expression. One that has no value, such as for a missing field, is not true."""
    # A late import, as above.
    from opsdk.children.expression import compile_ready  # noqa: PLC0415

    outcome = compile_ready(expression).run({"self": tree})
    if outcome.error is not None:
        return Summary(SummaryState.IN_PROGRESS, f"{_shown(expression)}: {outcome.error}")
    if outcome.value is True:
        return _CURRENT
    value = "false" if outcome.value is False else f"not a bool: {outcome.value!r}"
    return Summary(SummaryState.IN_PROGRESS, f"{_shown(expression)} is {value}")


def _shown(expression: str) -> str:
    return shortened(" ".join(expression.split()), _MAX_EXPRESSION)
