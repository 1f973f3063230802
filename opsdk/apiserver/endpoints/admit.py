"""Admission between decoding and storing: the port, and how the verbs call it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.registry.ports import Validate
from opsdk.apiserver.resources import Installed
from opsdk.apiserver.storage.ports import Tree


@dataclass(slots=True, kw_only=True)
class Review:
    """One write under review. Plugins may replace `obj` while mutating; objects are of the served version."""

    call: Call
    served: Installed
    operation: str
    namespace: str
    name: str
    obj: Tree | None = None
    old: Tree | None = None
    options: Tree = field(default_factory=dict)
    dry_run: bool = False


class Admission(Protocol):
    """Rules across kinds."""

    async def mutate(self, review: Review) -> None:
        """Change ``review.obj``, or raise to refuse."""
        ...

    async def validate(self, review: Review) -> None:
        """Raise to refuse."""
        ...


class AdmissionChain:
    """Several plugins, one after another."""

    def __init__(self, plugins: list[Admission] | None = None) -> None:
        self.plugins = plugins or []

    async def mutate(self, review: Review) -> None:
        """Each in turn."""
        for plugin in self.plugins:
            await plugin.mutate(review)

    async def validate(self, review: Review) -> None:
        """Each in turn."""
        for plugin in self.plugins:
            await plugin.validate(review)


def validator(
    admission: Admission, call: Call, served: Installed, operation: str, *, dry_run: bool, name: str = ""
) -> Validate:
    """The callback that a store calls before it writes."""

    async def check(obj: Tree, old: Tree | None) -> None:
        model = served.model
        deleting = operation == "DELETE"
        await admission.validate(
            Review(
                call=call,
                served=served,
                operation="CREATE" if old is None else operation,
                namespace=call.info.namespace,
                name=name or (obj.get("metadata") or {}).get("name", ""),
                obj=None if deleting else model.from_storage(obj),
                old=None if old is None else model.from_storage(old),
                dry_run=dry_run,
            )
        )

    return check
