"""Lists whose items are encoded while the client reads."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio import large_work
from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.apiserver.endpoints import list_stream
from opsdk.apiserver.endpoints.list_stream import Encode, ListText, list_body
from opsdk.apiserver.endpoints.shared_frames import SharedFrames
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.structured_merge.value import JsonObject

TEXTS = st.sampled_from(["", "a", "items: []", '"items":[]', '"items": []', "a\nitems: []\nb", "<&>", "ü\u2028"])
ITEMS = st.lists(st.dictionaries(TEXTS, st.one_of(TEXTS, st.lists(TEXTS), st.none(), st.integers())), min_size=1)
JSON = msgspec.json.encode


def list_of(items: list[JsonObject]) -> JsonObject:
    """Return a list whose metadata has what separates its items."""
    return {"apiVersion": "v1", "note": "\nitems: []\n", "items": items, "kind": "List", "metadata": {"a": "items: []"}}


def indented(item: JsonObject) -> bytes:
    """Return the text of an item in a list with indents."""
    return msgspec.json.format(JSON(item), indent=2).replace(b"\n", b"\n    ")


async def sent(form: ListText, items: list[JsonObject], encode: Encode) -> bytes:
    """Return the body of a list."""
    return await text_of(await list_body(form, items, encode))


async def text_of(response: HttpResponse) -> bytes:
    """Return the whole body."""
    if isinstance(response, StreamResponse):
        return b"".join([chunk async for chunk in response.chunks])
    return response.body


@given(ITEMS, st.booleans())
def test_the_text_is_that_of_the_whole_list(items: list[JsonObject], shared: bool) -> None:
    """In compact JSON, with indents and in YAML, whether items are shared or not."""
    empty, whole = list_of([]), list_of(items)
    form = ("a form",) if shared else None
    for list_form, write, expected in (
        (ListText.of_json(JSON(empty), "items"), JSON, JSON(whole)),
        (
            ListText.of_indented_json(msgspec.json.format(JSON(empty), indent=2), "items"),
            indented,
            msgspec.json.format(JSON(whole), indent=2),
        ),
        (
            ListText.of_yaml(write_yaml(empty).encode(), "items"),
            lambda item: write_yaml([item]).encode(),
            write_yaml(whole).encode(),
        ),
    ):
        encode = Encode(cast("Any", write), lambda raw: raw, (form, write) if shared else None)
        assert asyncio.run(sent(list_form, items, encode)) == expected


async def test_a_large_item_is_encoded_once_for_all_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list holds the same bytes; an item without a form is encoded for each list."""
    monkeypatch.setattr(list_stream, "FRAMES", SharedFrames())
    items = [{"a": "x" * large_work.LARGE_BYTES}, {"b": "small"}] * 20
    written: list[JsonObject] = []

    def write(item: JsonObject) -> bytes:
        written.append(item)
        return JSON(item)

    form = ListText.of_json(JSON(list_of([])), "items")
    for _ in range(3):
        response = await list_body(form, items, Encode(write, lambda raw: raw, "a form"))
        assert isinstance(response, StreamResponse)
        assert await text_of(response) == JSON(list_of(items))
    large = [item for item in written if "a" in item]
    assert len(large) == 1
