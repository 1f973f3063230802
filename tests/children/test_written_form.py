"""The form in which the server writes values: this implementation against the server's codec."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.codec.decode_context import DecodeContext
from envtest.codec.decoder import Decoders
from envtest.data.resources import ServedResourceRow
from envtest.data.schemas import types
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.children import written_form as module
from opsdk.children.field_types import UNTYPED, built_in_type, custom_type
from opsdk.children.written_form import written_form
from opsdk.errors import DecodeError
from opsdk.structured_merge.typed import ABSENT
from tests.envtest.groups.trees import Maker, kinds

KINDS = pytest.mark.parametrize("row", kinds(), ids=lambda row: f"{row.info.group}/{row.info.kind}")


@KINDS
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_are_decoded_and_encoded_as_by_the_server(row: ServedResourceRow, seed: int) -> None:
    """Empty values, nulls, quantities, times and zeros are decoded and encoded as by the server."""
    field_type = built_in_type(GroupVersionKind(row.info.group, row.info.version, row.info.kind))
    if field_type is None:
        return  # a kind that cannot be applied
    name = types().name_of(row.info.group, row.info.version, row.info.kind)
    assert name is not None
    rng = random.Random(seed)
    tree = {key: value for key, value in Maker(rng).named(name, 0).items() if key not in ("metadata", "status")}
    tree = _with_nulls(tree, rng)
    for claim in (tree.get("spec") or {}).get("volumeClaimTemplates") or ():
        (claim or {}).pop("status", None)  # the table has no types of statuses
    try:
        theirs = Decoders(types()).read(name, copy.deepcopy(tree), DecodeContext(from_memory=True))
    except DecodeError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "fill_defaults", lambda *_: None)
        for key in ("metadata", "status"):
            theirs.pop(key, None)
        ours = {
            key: value for key, value in written_form(tree, field_type).items() if key not in ("metadata", "status")
        }
    assert ours == theirs


def _with_nulls(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        return {key: None if rng.random() < 0.05 else _with_nulls(part, rng) for key, part in value.items()}
    return [_with_nulls(part, rng) for part in value] if isinstance(value, list) else value


def test_custom_resources_keep_empty_values() -> None:
    """Nulls that are not nullable vanish, defaults fill in, floats without fraction become integers."""
    nullable = {"type": "string", "nullable": True}
    item = {"type": "object", "properties": {"a": nullable, "b": {"type": "integer", "default": 2}, "c": {}}}
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": item}}}
    written = written_form({"list": [{"a": None, "b": None, "c": 1.0, "d": 1}, {}]}, custom_type(schema))
    assert written == {"list": [{"a": None, "b": 2, "c": 1}, {"b": 2}]}
    assert written_form({"a": [None, 2.0, {}]}, UNTYPED) == {"a": [None, 2, {}]}
    assert written_form(None, custom_type({"type": "string"})) is ABSENT
