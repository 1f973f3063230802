"""Objects that users and other programs of a workload name and create, as trees."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.errors import AlreadyExistsError
from opsdk.structured_merge.value import JsonObject

__all__ = ["USER", "create_missing", "reference_to"]

USER: Final = "user"
"""The field manager of a workload's users."""


def reference_to(tree: JsonObject) -> Unstructured:
    """Return an object with what names it alone."""
    metadata = {name: tree["metadata"][name] for name in ("name", "namespace") if tree["metadata"].get(name)}
    return Unstructured.from_tree({"apiVersion": tree["apiVersion"], "kind": tree["kind"], "metadata": metadata})


async def create_missing(client: Client, tree: JsonObject) -> None:
    """Create an object of a user, unless it exists."""
    with suppress(AlreadyExistsError):
        await client.create(Unstructured.from_tree(tree), field_owner=USER)
