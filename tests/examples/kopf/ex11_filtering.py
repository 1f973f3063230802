"""Controllers that see only some objects and some changes."""

from __future__ import annotations

import asyncio

from opsdk import Context, Operator
from opsdk.event.event import Event
from opsdk.event.predicates import Predicate, matches_labels, of_object, on
from tests.examples.kopf.kinds import Example


def annotation(example: Example) -> str | None:
    """Return the annotation that the filters look at."""
    return (example.metadata.annotations or {}).get("someannotation")


def field_changed(event: Event[Example]) -> bool:
    """Whether an update sets spec.field from ``value`` to ``changed``."""
    old, new = event.old, event.new
    return bool(old and new and (old.object.spec.field, new.object.spec.field) == ("value", "changed"))


FILTERS: dict[str, Predicate] = {
    "label-matches": matches_labels("somelabel=somevalue"),
    "label-is-present": matches_labels("somelabel"),
    "label-is-absent": matches_labels("!nonexistent"),
    "label-and-field": matches_labels("somelabel=somevalue") & of_object(lambda obj: bool(obj.spec.field)),
    "annotation-matches": of_object(lambda obj: annotation(obj) == "somevalue"),
    "annotation-is-present": of_object(lambda obj: annotation(obj) is not None),
    "annotation-is-absent": of_object(lambda obj: "nonexistent" not in (obj.metadata.annotations or {})),
    "annotation-and-field": of_object(lambda obj: annotation(obj) == "somevalue" and obj.spec.field == "other"),
    "function-passes": of_object(lambda obj: True),
    "function-drops": of_object(lambda obj: False),
    "field-matches": of_object(lambda obj: obj.spec.field == "value"),
    "field-differs": of_object(lambda obj: obj.spec.field == "something-else"),
    "field-is-present": of_object(lambda obj: bool(obj.spec.field)),
    "list-is-present": of_object(lambda obj: bool(obj.spec.items)),
    "field-changes": on(create=False, update=field_changed, delete=False),
}


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("filters")

    async def reconcile(example: Example, ctx: Context) -> None:
        ctx.logger.info("%s", ctx.controller)

    for name, predicate in FILTERS.items():
        operator.reconciler(Example, name=name, predicates=[predicate])(reconcile)

    @operator.daemon(Example, when=lambda example: example.spec.field == "value", name="daemon")
    async def follow(example: Example, ctx: Context) -> None:
        while True:
            ctx.logger.info("daemon")
            await asyncio.sleep(1)

    return operator
