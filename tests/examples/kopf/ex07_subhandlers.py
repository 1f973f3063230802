"""A request for each item of the spec, with retries of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from opsdk import Operator
from opsdk.builder.arguments import WatchSpec
from opsdk.event.predicates import generation_changed
from tests.examples.kopf.kinds import Example


class Item(msgspec.Struct, frozen=True):
    """An item of an object."""

    namespace: str
    name: str
    item: str


def items_of(example: Example) -> list[Item]:
    """Return the items of an object."""
    return [Item(example.metadata.namespace, example.metadata.name, item) for item in example.spec.items]


def make_operator(create_item: Callable[[Item], Awaitable[None]]) -> Operator:
    """Return the operator."""
    operator = Operator("items")
    watch = WatchSpec(kind=Example, handler=items_of, predicates=[generation_changed()])

    @operator.reconciler(name="items", watches=[watch])
    async def reconcile(item: Item) -> None:
        await create_item(item)

    return operator
