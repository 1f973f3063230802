"""Keep objects as wanted by server-side apply, without a request where nothing is to be done."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec
from cachetools import LRUCache

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import kind_of_object
from opsdk.apimachinery.object import KubeObject, TypedObject, Unstructured, gvk_of, key_of, to_tree
from opsdk.client.client import Client
from opsdk.recipes.owner_references import set_controller_reference

T = TypeVar("T", bound=TypedObject | Unstructured)


class Applier:
    """Applies wanted objects.

    An object is applied when it was wanted differently before, is missing, or has drifted from what is wanted. The
    check reads from the client's cache: a cache that lags behind costs a request that changes nothing, never a wrong
    result. After a start each object is applied once.

    Args:
        size: how many objects' last wishes are remembered; more only cost requests.
    """

    def __init__(self, client: Client, *, field_owner: str, size: int = 100_000) -> None:
        self._client = client
        self._owner = field_owner
        self._applied: LRUCache[tuple[GroupVersionKind, ObjectKey], bytes] = LRUCache(size)

    async def ensure(self, desired: T, *, owner: KubeObject | None = None) -> T:
        """Make the object be as `wanted`; returns it as it is now.

        Args:
            wanted: only the fields that matter; what others (or defaults) set besides stays. A field wanted before
                and left out now is removed.
            owner: made the controlling owner.
        """
        if owner is not None:
            set_controller_reference(owner, desired)
        tree = to_tree(desired)
        place = (gvk_of(desired), key_of(desired))
        digest = hashlib.blake2b(msgspec.json.encode(tree, order="deterministic"), digest_size=16).digest()
        if self._applied.get(place) == digest:
            live: T | None = await self._client.get_or_none(kind_of_object(desired), place[1])
            if live is not None and live.metadata.deletion_timestamp is None and covers(to_tree(live), tree):
                return live
        await self._client.apply(desired, field_owner=self._owner, force=True)
        self._applied[place] = digest
        return desired


def covers(live: Any, desired: Any) -> bool:
    """Whether everything `wanted` says holds in `live`. Lists must agree item by item.

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
