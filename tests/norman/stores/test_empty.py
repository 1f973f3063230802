"""The store without objects."""

from __future__ import annotations

import pytest
from normankit import V3, api_context

from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.model import Schema
from opsdk.norman.stores.empty import EmptyStore

BOOK = Schema(id="book", version=V3)


async def test_reads_of_an_empty_store_return_nothing() -> None:
    """A list and a watch are empty and end; no id exists."""
    store = EmptyStore()
    assert (await store.list(api_context(), BOOK, ObjectQuery())).items == []
    assert [event async for event in store.watch(api_context(), BOOK, ObjectQuery())] == []
    with pytest.raises(NormanError, match="failed to find a") as raised:
        await store.by_id(api_context(), BOOK, "a")
    assert raised.value.status == 404


async def test_writes_to_an_empty_store_are_not_supported() -> None:
    """Each write of an empty store is a 405."""
    store, context = EmptyStore(), api_context()
    for attempt in (
        store.create(context, BOOK, {}),
        store.update(context, BOOK, {}, "a"),
        store.delete(context, BOOK, "a"),
    ):
        with pytest.raises(NormanError) as raised:
            await attempt
        assert (raised.value.status, raised.value.code) == (405, "MethodNotAllow")
