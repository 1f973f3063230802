"""Raw fields, which keep their JSON text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.serializer.raw import RawExtension, member, raw_text
from opsdk.structured_merge.value import JsonObject

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"


@given(st.dictionaries(st.text(), TREES, max_size=4), st.sampled_from([None, 1]), st.booleans())
def test_a_member_is_found_as_it_is_written(tree: JsonObject, indent: int | None, plain: bool) -> None:
    """The text of each member is that of its value, with any white space."""
    document = json.dumps(tree, indent=indent, ensure_ascii=plain)
    for key, value in tree.items():
        text = member(document, key)
        assert text is not None
        assert json.loads(text) == value
        assert text in document
    assert member(document, "no such key") is None or "no such key" in tree


def test_of_repeated_members_the_last_counts() -> None:
    """The last of repeated members counts, as in encoding/json."""
    assert member('{"a":1,"a":[ 2 ]}', "a") == "[ 2 ]"
    assert member("[1]", "a") is None


def test_copies_keep_the_text() -> None:
    """A copied RawExtension keeps its text."""
    tree = {"data": RawExtension({"a": 1}, '{"a": 1}')}
    assert raw_text(copy_tree(tree)["data"]) == '{"a": 1}'
    assert raw_text({"a": "<"}) == '{"a":"\\u003c"}'


def revision(number: int) -> JsonObject:
    """A revision, whose body has white space."""
    return {"metadata": {"name": "r"}, "revision": number, "data": {"b": [1, 2], "a": "x"}}


async def test_a_patch_writes_data_anew_and_so_changes_it() -> None:
    """A patch reformats raw data with white space, which counts as a change; a PUT of equal bytes does not."""
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", REVISIONS, revision(1))).status == 201
        patched = await call("PATCH", f"{REVISIONS}/r", {"revision": 2}, content_type=MERGE)
        assert patched.status == 422
        assert patched.json["details"]["causes"][0]["field"] == "data"
        again = await call("PUT", f"{REVISIONS}/r", revision(2))
        assert (again.status, again.json["revision"]) == (200, 2)
        compact = json.dumps(revision(3), separators=(",", ":")).encode()
        assert (await call("PUT", f"{REVISIONS}/r", compact)).status == 422


async def test_compact_data_can_be_patched_around() -> None:
    """Data as Go writes it stays the same text."""
    async with Environment() as env:
        call = Caller(env)
        compact = json.dumps(revision(1), separators=(",", ":")).encode()
        assert (await call("POST", REVISIONS, compact)).status == 201
        patched = await call("PATCH", f"{REVISIONS}/r", {"revision": 2}, content_type=MERGE)
        assert (patched.status, patched.json["revision"]) == (200, 2)
        changed = await call("PATCH", f"{REVISIONS}/r", {"data": {"0": 1}}, content_type=MERGE)
        assert 'data: Invalid value: {"0":1,"a":"x","b":[1,2]}: field is immutable' in changed.json["message"]
