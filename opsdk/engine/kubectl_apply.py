"""Applies objects as ``kubectl apply`` does."""

from __future__ import annotations

from typing import Final

from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.structured_merge.value import JsonObject

FIELD_OWNER: Final = "kubectl-client-side-apply"
"""The field manager of ``kubectl apply``."""


async def apply_as_kubectl(client: Client, tree: JsonObject, *, field_owner: str = FIELD_OWNER) -> None:
    """Apply an object; without a namespace, a namespaced one goes into ``default``. Raises `OpsdkError`."""
    obj = Unstructured.from_tree(tree)
    if not obj.metadata.namespace and (await client.mapper.mapping_for(obj.gvk)).namespaced:
        obj.metadata.namespace = "default"
    await client.apply(obj, field_owner=field_owner, force=True)
