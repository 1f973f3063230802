"""The admission policies of an operator on an API server of a test or a run."""

from __future__ import annotations

from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.builder.operator import Operator
from opsdk.client.client import Client


async def apply_policies(client: Client, operator: Operator, *, field_owner: str) -> list[Unstructured]:
    """Apply the policies and bindings of an operator, and return them. Their definitions must be served.

    Args:
        client: writes directly to the server.
        operator: it declares policies.
        field_owner: the field manager.
    """
    return [
        await client.apply(Unstructured.from_tree(tree), field_owner=field_owner, force=True)
        for tree in operator.admission_policies()
    ]


async def delete_policies(client: Client, before: Operator, now: Operator) -> None:
    """Delete the policies and bindings that an earlier version of an operator had, and the new one has not."""
    names = {(tree["kind"], tree["metadata"]["name"]) for tree in now.admission_policies()}
    for tree in reversed(before.admission_policies()):
        if (tree["kind"], tree["metadata"]["name"]) not in names:
            kind = unstructured_kind(tree["apiVersion"], tree["kind"])
            await client.delete(kind, tree["metadata"]["name"], missing_ok=True)
