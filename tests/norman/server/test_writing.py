"""Bodies of collections."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.norman.server.writing import _JSON, _YAML, _in_parts
from opsdk.structured_merge.value import JsonObject

TEXTS = st.sampled_from(["", "a", "data: []", '"data":[]', "a\ndata: []\nb", "ü"])
ITEMS = st.lists(st.dictionaries(TEXTS, st.one_of(TEXTS, st.none(), st.lists(TEXTS))), min_size=1)


@given(ITEMS, st.booleans())
def test_a_collection_in_parts_equals_the_whole(items: list[JsonObject], large: bool) -> None:
    """Also with large objects, and with a filter that looks as the objects do."""
    items = [*items, {"a": "x" * 20_000}] if large else items
    wire = {
        "type": "collection",
        "actions": {},
        "filters": {"data": []},
        "links": {"self": "\ndata: []\n"},
        "data": items,
    }
    assert asyncio.run(_in_parts(wire, _JSON)) == msgspec.json.encode(wire)
    assert asyncio.run(_in_parts(wire, _YAML)) == write_yaml(wire).encode()
