"""Keeps objects in a desired state with server-side apply, and sends no request when nothing has changed."""

from __future__ import annotations

import hashlib
from typing import TypeVar

import msgspec
from cachetools import LRUCache

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import kind_of_object
from opsdk.apimachinery.object import KubeObject, TypedObject, Unstructured, gvk_of, key_of, to_tree
from opsdk.client.client import Client
from opsdk.recipes.owner_references import set_controller_reference
from opsdk.structured_merge.value import JsonValue

T = TypeVar("T", bound=TypedObject | Unstructured)


class Applier:
    """Applies desired objects.

    An object is applied when its desired state changed since the last call, when it is missing, or when it has drifted.
    The check reads through the client's cache. A stale cache costs one request without effect, never a wrong result.
    After a start, each object is applied once.

    Args:
        client: reads (from its cache, if it has one) and writes.
        field_owner: the field manager of all applies.
        size: how many objects' last applied states are remembered. More objects cost extra requests.
    """

    def __init__(self, client: Client, *, field_owner: str, size: int = 100_000) -> None:
        self._client = client
        self._owner = field_owner
        self._applied: LRUCache[tuple[GroupVersionKind, ObjectKey], bytes] = LRUCache(size)

    async def ensure(self, desired: T, *, owner: KubeObject | None = None) -> T:
        """Make the object match `desired`, and return its current state.

        Args:
            desired: only the fields that matter. Fields that others or defaults set stay. A field of an earlier call
                that is left out now is removed.
            owner: made the controller of the object (see `set_controller_reference`).

        Raises:
            AlreadyOwnedError: another controller owns the object.
            ApiError: the server rejected the apply.
        """
        if owner is not None:
            set_controller_reference(owner, desired)
        tree = to_tree(desired)
        identity = (gvk_of(desired), key_of(desired))
        digest = hashlib.blake2b(msgspec.json.encode(tree, order="deterministic"), digest_size=16).digest()
        if self._applied.get(identity) == digest:
            live: T | None = await self._client.get_or_none(kind_of_object(desired), identity[1])
            if live is not None and live.metadata.deletion_timestamp is None and covers(to_tree(live), tree):
                return live
        await self._client.apply(desired, field_owner=self._owner, force=True)
        self._applied[identity] = digest
        return desired


def covers(live: JsonValue, desired: JsonValue) -> bool:
    """Whether `live` has every value of `desired`. Lists must match item by item.

    >>> covers({"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"c": 2}]})
    True
    """
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(k in live and covers(live[k], v) for k, v in desired.items())
    if isinstance(desired, list):
        if not isinstance(live, list) or len(live) != len(desired):
            return False
        return all(covers(a, b) for a, b in zip(live, desired, strict=True))
    return bool(live == desired)
