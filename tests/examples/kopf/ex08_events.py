"""Spies that see every event and store nothing."""

from __future__ import annotations

from opsdk import Operator, Request
from opsdk.builder.arguments import WatchSpec
from opsdk.event.event import Event
from opsdk.event.handlers import Funcs
from tests.examples.kopf.kinds import Example


def make_operator(seen: list[str]) -> Operator:
    """Return the operator."""
    operator = Operator("spies")

    def spy(event: Event[Example]) -> None:
        seen.append(f"{event.type.value} {event.view.key}")

    def fail(event: Event[Example]) -> None:
        raise ValueError("a bug")

    watches = [
        WatchSpec(kind=Example, handler=Funcs(create=fail, update=fail, delete=fail)),
        WatchSpec(kind=Example, handler=Funcs(create=spy, update=spy, delete=spy)),
    ]

    @operator.reconciler(name="spies", watches=watches)
    async def reconcile(request: Request) -> None: ...

    return operator
