"""Writes of one key, and the outcome of writes with a lost response. The rules are in `storage`."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import EtcdClient, Repeat, Rpc
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure
from opsdk.apiserver.storage.etcd.values import StoredObject, decode
from opsdk.structured_merge.value import JsonObject

log = logging.getLogger(__name__)

_TRIES = 5
"""Attempts to read a key's history; each goes to another member."""


class Committed(NamedTuple):
    """The revision of the write; None if the key had changed, and then `newer` is its state (None: absent)."""

    revision: int | None
    newer: StoredObject | None = None


class Transactions:
    """Creates, replaces and deletes keys. Raises `EtcdError`."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client

    async def create(self, name: bytes, value: JsonObject, data: bytes) -> int | None:
        """Create a key; return its revision, or None if it exists."""
        put = messages.RequestOp(request_put=messages.PutRequest(key=name, value=data))
        try:
            response, _ = await self._client.request(Rpc.TXN, _compared(name, 0, put), Repeat.NEVER)
        except EtcdError as error:
            if not error.done or (revision := await self._created(name, value, data)) is None:
                raise
            return revision
        committed: int = response.header.revision
        return committed if response.succeeded else None

    async def _created(self, name: bytes, value: JsonObject, data: bytes) -> int | None:
        """Return the revision of the key's creation if its object is `value`; None also if etcd fails."""
        try:
            response, _ = await self._client.request(Rpc.RANGE, messages.RangeRequest(key=name))
        except EtcdError as error:
            log.info("the outcome of a creation stays unknown: %s", error)
            return None
        if not response.kvs:
            return None
        entry = response.kvs[0]
        uid = (value.get("metadata") or {}).get("uid")
        # Another writer may have updated the object since, with the same UID.
        same = entry.value == data or (uid and (decode(entry).value.get("metadata") or {}).get("uid") == uid)
        revision: int = entry.create_revision
        return revision if same else None

    async def replace(self, name: bytes, current: StoredObject, data: bytes) -> Committed:
        """Write `data` if `current` is still the key's last write."""
        put = messages.RequestOp(request_put=messages.PutRequest(key=name, value=data))
        return await self._commit(name, current, put, data)

    async def delete(self, name: bytes, current: StoredObject) -> Committed:
        """Delete the key if `current` is still its last write."""
        removal = messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=name))
        return await self._commit(name, current, removal, None)

    async def _commit(self, name: bytes, current: StoredObject, operation: Any, data: bytes | None) -> Committed:
        request = _compared(name, current.revision, operation)
        response, uncertain = await self._client.request(Rpc.TXN, request, Repeat.COMPARED)
        if response.succeeded:
            return Committed(response.header.revision)
        if uncertain:
            event = await self._first_change(name, current.revision)
            deleted = event.type != messages.EVENT_PUT
            if deleted if data is None else (not deleted and event.kv.value == data):
                return Committed(event.kv.mod_revision)
        entries = response.responses[0].response_range.kvs
        return Committed(None, decode(entries[0]) if entries else None)

    async def _first_change(self, name: bytes, revision: int) -> Any:
        """Return the first event of a key after `revision`, which exists."""
        request = messages.WatchCreateRequest(key=name, start_revision=revision + 1)
        text = ""
        for _ in range(_TRIES):
            try:
                async with self._client.watch(request) as responses:
                    response = await anext(responses)
                    while not response.events and not response.canceled:
                        response = await anext(responses)
            except EtcdError as error:
                text = error.text
                continue
            if response.events:
                return response.events[0]
            text = response.cancel_reason or f"the history before {response.compact_revision} is compacted"
            break
        raise EtcdError(EtcdFailure.UNKNOWN, text, done=True)


def _compared(name: bytes, revision: int, operation: Any) -> Any:
    """Return a transaction: `operation` if the key's last revision is `revision`, else a read of the key."""
    compare = messages.Compare(
        result=messages.COMPARE_EQUAL, target=messages.COMPARE_MOD_REVISION, key=name, mod_revision=revision
    )
    read = messages.RequestOp(request_range=messages.RangeRequest(key=name))
    return messages.TxnRequest(compare=[compare], success=[operation], failure=[read])
