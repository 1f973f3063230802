"""Lists as protobuf, in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.data.messages import write_protobuf
from opsdk.apiserver.endpoints import list_stream, protobuf_list
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.http.server.unread import UNREAD, UnreadBytes
from opsdk.structured_merge.value import JsonObject

LISTS: list[JsonObject] = [
    {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7", "continue": "c"}, "items": []},
    {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": []},
]


def config_map(size: int) -> JsonObject:
    """Return a stored object of about so many bytes."""
    return {"metadata": {"name": f"n{size}", "annotations": {"a": "x" * size}}}


def same(obj: JsonObject) -> JsonObject:
    """Return the object: its stored form is that of the list."""
    return obj


async def respond(
    empty: JsonObject, items: list[JsonObject], write: Callable[[JsonObject], bytes] = write_protobuf
) -> HttpResponse:
    """Return the response with a list."""
    call: Any = SimpleNamespace(http=SimpleNamespace(cut=None), user=SimpleNamespace(name="ann"), protobuf=write)
    return await protobuf_list.protobuf_list(call, empty, items, same, form=None, is_slow=False)


async def read(response: HttpResponse) -> bytes:
    """Return the body."""
    if not isinstance(response, StreamResponse):
        return response.body
    assert response.release is not None
    body = b"".join([chunk async for chunk in response.chunks])
    response.release()
    return body


@given(
    st.lists(st.sampled_from([0, 10, 200, 3000]).map(config_map), max_size=60),
    st.sampled_from(LISTS),
    st.sampled_from([1, 500, 10_000]),
    st.sampled_from([0, 2000, 100_000]),
    st.sampled_from([0, 3000, 100_000]),
)
def test_the_bytes_are_those_of_the_whole_list(
    items: list[JsonObject], empty: JsonObject, piece: int, kept: int, budget: int
) -> None:
    """Whatever is kept and whatever is encoded again; nothing is held at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_stream, "PIECE_BYTES", piece)
        patch.setattr(protobuf_list, "KEPT_BYTES", kept)
        patch.setattr(protobuf_list, "WHOLE_BYTES", 1000)
        unread = UnreadBytes(budget)
        patch.setattr(protobuf_list, "UNREAD", unread)
        response = asyncio.run(_read_all(empty, items))
        assert response == write_protobuf({**empty, "items": items})
        assert unread.held == {}


async def _read_all(empty: JsonObject, items: list[JsonObject]) -> bytes:
    return await read(await respond(empty, items))


async def test_lists_that_are_not_read_hold_the_budget_of_their_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred lists of 400 KB hold a budget of 1 MB at most; a client that leaves frees its part."""
    unread = UnreadBytes(1_000_000)
    monkeypatch.setattr(protobuf_list, "UNREAD", unread)
    items = [config_map(10_000) for _ in range(40)]  # each response has a copy of its own
    responses = [await respond(LISTS[0], items) for _ in range(100)]
    assert 500_000 < unread.held["ann"] <= 1_100_000
    for response in responses[:50]:
        assert isinstance(response, StreamResponse)
        assert response.release is not None
        response.release()
    whole = write_protobuf({**LISTS[0], "items": items})
    assert {await read(response) for response in responses[50:]} == {whole}
    assert unread.held == {}


async def test_an_error_of_the_encoder_holds_nothing() -> None:
    """The request fails before its response begins."""

    def failing(tree: JsonObject) -> bytes:
        if any(item["metadata"]["name"] == "n1" for item in tree["items"]):
            raise ValueError("n1")
        return write_protobuf(tree)

    with pytest.raises(ValueError, match="n1"):
        await respond(LISTS[0], [*[config_map(10_000)] * 100, config_map(1)], failing)
    assert UNREAD.held == {}


async def test_a_list_that_changes_between_its_encodings_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length has been sent, so another one would be a wrong message."""
    monkeypatch.setattr(protobuf_list, "KEPT_BYTES", 0)
    item = config_map(100_000)
    response = await respond(LISTS[0], [item] * 10)
    item["metadata"]["name"] = "longer"
    with pytest.raises(RuntimeError, match="when it was encoded again"):
        await read(response)
