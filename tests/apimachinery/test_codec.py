"""Bytes to objects and back: nothing is lost, and every failure says where it is."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap, Container, Pod
from opsdk.apimachinery.codec import decode, decode_list, decode_partial, decode_tree, encode, peek_key, split_list
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind, kind_of, metadata_only, unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, PartialObjectMetadata, Unstructured, deep_copy, retain_status, to_dict
from opsdk.cache.head import decode_head
from opsdk.errors import CodecError, DecodeError, EncodeError
from opsdk.rest.frames import error_from_event
from opsdk.structured_merge.value import JsonObject

POD = kind_of(Pod)
ANY = unstructured_kind("v1", "Pod")


def pod(**rest: Any) -> JsonObject:
    """A pod as the server sends it."""
    meta = {"name": "p", "namespace": "ns", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "c"}]}, **rest}


def raw(tree: Any) -> bytes:
    """As JSON."""
    return msgspec.json.encode(tree)


@pytest.mark.parametrize("kind", [POD, ANY])
def test_an_unchanged_object_encodes_to_what_it_came_from(kind: Kind[Any]) -> None:
    """Unknown fields, explicit zeros and nulls included."""
    tree = pod(status={"phase": "", "conditions": None, "future": [1, {"a": None}]}, strange={"deep": {"x": 1.5}})
    tree["spec"]["hostNetwork"] = False
    tree["spec"]["containers"][0] |= {"args": [], "newField": {"y": 2}}
    assert msgspec.json.decode(encode(decode(raw(tree), kind))) == tree


def test_errors_name_kind_key_and_path() -> None:
    """A decode error names the object and the path of the invalid field."""
    with pytest.raises(DecodeError, match=r"Kind=Pod ns/p: .*spec\.containers\[0\]\.name"):
        decode(raw(pod(spec={"containers": [{"name": 5}]})), POD)
    with pytest.raises(DecodeError, match="starts with"):
        decode(b"{nonsense", POD)
    with pytest.raises(DecodeError, match="expected v1, Kind=Pod, got v1, Kind=Node: ns/p"):
        decode(raw(pod(kind="Node")), ANY)
    with pytest.raises(DecodeError, match="expected v1, Kind=Pod, got v2, Kind=Pod"):
        decode(raw(pod(apiVersion="v2", spec={"containers": 5})), POD)
    for wrong in (b"[]", b"5", b"null", b'"x"', b"\xff"):
        with pytest.raises(DecodeError):
            decode(wrong, POD)
        with pytest.raises(DecodeError):
            decode(wrong, ANY)
        with pytest.raises(DecodeError):
            decode_partial(wrong)


def test_items_of_built_in_lists_are_named() -> None:
    """An item without kind and version gets those of its list's kind."""
    bare = {k: v for k, v in pod().items() if k not in ("apiVersion", "kind")}
    for kind in (POD, ANY, metadata_only(Pod)):
        assert (decode(raw(bare), kind).api_version, decode(raw(bare), kind).kind) == ("v1", "Pod")


def test_nulls_where_lists_and_maps_should_be() -> None:
    """Servers send them; they are read as empty, and kept as they were."""
    tree = pod(spec={"containers": None, "nodeSelector": None, "volumes": [{"name": "v", "configMap": None}]})
    tree["metadata"] |= {"labels": None, "finalizers": None, "creationTimestamp": None}
    for kind in (POD, ANY, metadata_only(Pod)):
        decoded = decode(raw(tree), kind)
        assert decoded.metadata.labels == {}
        if kind is not ANY and kind.representation is not PartialObjectMetadata:
            assert decoded.spec.containers == []
            assert msgspec.json.decode(encode(decoded)) == tree


def test_one_bad_item_is_set_aside() -> None:
    """The rest of the list is returned; the bad one's key and error with it."""
    items = [pod(), pod(metadata={"name": "bad", "namespace": "ns"}, spec={"containers": {}}), 5, pod()]
    decoded = decode_list(raw({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": items}), POD)
    assert len(decoded) == 2
    assert [str(u.key) for u in decoded.undecodable] == ["ns/bad", ""]
    assert "spec.containers" in decoded.undecodable[0].error
    assert decoded.metadata.resource_version == "9"


def test_what_is_no_list() -> None:
    """A single object, a wrong shape; no items at all is an empty list where the kind says so."""
    for wrong in (b"[]", raw(pod()), raw({"kind": "PodList", "items": {}}), b"nonsense"):
        with pytest.raises(DecodeError, match="expected a list"):
            split_list(wrong)
    assert split_list(raw({"kind": "PodList", "items": None})) == split_list(raw({"kind": "PodList"}))


def test_a_tree_is_decoded_like_its_bytes() -> None:
    """Decoding a tree gives the same object or error as decoding its bytes."""
    assert decode_tree(pod(), POD) == decode(raw(pod()), POD)
    assert to_dict(decode_tree(pod(odd=1), POD)) == pod(odd=1)
    with pytest.raises(DecodeError, match="ns/p"):
        decode_tree(pod(spec={"containers": 5}), POD)


def test_peeking_never_fails() -> None:
    """Peeking at a key returns the readable part, and never raises."""
    assert peek_key(raw(pod())) == ObjectKey("ns", "p")
    for odd in (b"", b"[", b"5", raw({"metadata": 5}), raw({"metadata": None}), b"\xff\xfe"):
        assert peek_key(odd) == ObjectKey("", "")
    assert peek_key(raw({"metadata": {"name": 5}})).name == "5"


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_but_decode_errors(data: bytes) -> None:
    """Any bytes decode or raise DecodeError."""
    for kind in (POD, ANY, metadata_only(Pod)):
        try:
            decode(data, kind)
        except DecodeError:
            pass
        else:
            assert isinstance(msgspec.json.decode(data), dict)


def test_what_has_no_wire_form() -> None:
    """An EncodeError that names the object."""
    bad = Unstructured("v1", "Pod", ObjectMeta(name="p", namespace="ns"), {"spec": {"x": object()}})
    for obj in (bad, Unstructured("v1", "Pod", ObjectMeta(name="p", namespace="ns"), {"x": {1: {2}, "y": object()}})):
        with pytest.raises(EncodeError, match="Pod ns/p"):
            encode(obj)
    with pytest.raises(EncodeError, match="ConfigMap ns/c"):
        encode(ConfigMap(metadata=ObjectMeta(name="c", namespace="ns"), data={"a": object()}))  # type: ignore[dict-item]


def test_times_with_six_decimals() -> None:
    """MicroTime keeps them on the wire, Time has none."""
    tree = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"renewTime": "2026-01-01T00:00:00.000000Z", "acquireTime": "2026-01-01T00:00:00.5Z"},
    }
    lease = decode(raw(tree), kind_of(Lease))
    assert msgspec.json.decode(encode(lease)) == tree
    assert lease.spec.acquire_time is not None
    fresh = Lease(metadata=lease.metadata, spec=lease.spec)
    sent = to_dict(fresh)
    assert sent["spec"]["acquireTime"] == "2026-01-01T00:00:00.500000Z"
    assert sent["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert sent["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_copies_are_independent() -> None:
    """A deep copy keeps what the type does not know, and shares nothing that can be changed."""
    one = decode(raw(pod(odd={"x": 1})), POD)
    two = deep_copy(one)
    two.spec.containers.append(Container(name="d"))
    two.metadata.labels["a"] = "b"
    assert to_dict(one) == pod(odd={"x": 1})
    assert to_dict(two)["odd"] == {"x": 1}


# ------------------------------------------------------------------ read, modify, write of any tree
class Part(Model, kw_only=True):
    """An item of a list that names it."""

    name: str
    size: int = 0


class Spec(Model, kw_only=True):
    """Something of each sort of field."""

    text: str = ""
    number: int | None = None
    flag: bool = False
    words: list[str] = msgspec.field(default_factory=list)
    table: dict[str, str] = msgspec.field(default_factory=dict)
    parts: list[Part] = msgspec.field(default_factory=list)


class Thing(Object[Spec, None]):
    """A kind that knows half of what its objects have."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Thing")


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=4)
values = st.recursive(
    scalars, lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text(max_size=3), t, max_size=3), max_leaves=8
)
unknown = st.dictionaries(st.sampled_from(["u1", "u2", "u3"]), values, max_size=3)
names = st.lists(st.sampled_from("abcdef"), max_size=4, unique=True)


@st.composite
def things(draw: st.DrawFn) -> JsonObject:
    """A tree that decodes as a Thing, with unknown fields anywhere."""
    known_fields = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "text": st.text(max_size=3) | st.none(),
                "number": st.integers(-5, 5) | st.none(),
                "flag": st.booleans(),
                "words": st.lists(st.text(max_size=2), max_size=3) | st.none(),
                "table": st.dictionaries(st.sampled_from("xyz"), st.text(max_size=2), max_size=3),
            },
        )
    )
    parts = [{"name": n, **draw(unknown), **({"size": draw(st.integers(0, 3))} if draw(st.booleans()) else {})}
             for n in draw(names)]  # fmt: skip
    spec = {**draw(unknown), **known_fields, **({"parts": parts} if parts or draw(st.booleans()) else {})}
    meta = {**draw(unknown), "name": "t", "namespace": "ns"}
    return {"apiVersion": "demo.opsdk.dev/v1", "kind": "Thing", "metadata": meta, "spec": spec, **draw(unknown)}


@pytest.mark.slow
@given(things())
def test_any_tree_survives_unchanged(tree: JsonObject) -> None:
    """Decoded as its type and encoded again it is the same tree."""
    assert msgspec.json.decode(encode(decode(raw(tree), kind_of(Thing)))) == tree
    assert msgspec.json.decode(encode(decode(raw(tree), unstructured_kind("demo.opsdk.dev/v1", "Thing")))) == tree


@pytest.mark.slow
@given(things(), st.data())
def test_a_typed_change_changes_nothing_else(tree: JsonObject, data: st.DataObject) -> None:
    """After any typed change the known fields are as set, and every unknown field is where it was."""
    thing = decode(raw(tree), kind_of(Thing))
    if data.draw(st.booleans()):
        thing.spec.text = data.draw(st.text(max_size=3))
    if data.draw(st.booleans()):
        thing.spec.number = data.draw(st.none() | st.integers(0, 9))
    if data.draw(st.booleans()):
        thing.spec.words = data.draw(st.lists(st.text(max_size=2), max_size=3))
    if data.draw(st.booleans()):
        thing.metadata.labels["new"] = "label"
    kept_parts = data.draw(st.permutations(thing.spec.parts))[: data.draw(st.integers(0, 4))]
    thing.spec.parts = [*kept_parts, Part(name="zz", size=1)] if data.draw(st.booleans()) else list(kept_parts)
    for part in thing.spec.parts:
        if data.draw(st.booleans()):
            part.size = data.draw(st.integers(0, 3))
    sent = msgspec.json.decode(encode(thing))
    again = decode(raw(sent), kind_of(Thing))
    assert again == thing
    for before, after in ((tree, sent), (tree["spec"], sent["spec"]), (tree["metadata"], sent["metadata"])):
        assert {k: v for k, v in before.items() if k.startswith("u")} == {
            k: v for k, v in after.items() if k.startswith("u")
        }
    old = {p["name"]: p for p in tree["spec"].get("parts") or ()}
    for part in sent["spec"].get("parts", ()):
        extra = {k: v for k, v in part.items() if k.startswith("u")}
        assert extra == {k: v for k, v in old.get(part["name"], {}).items() if k.startswith("u")}


HUGE = b"1" * 5000
DEEP = b"[" * 50_000 + b"]" * 50_000
INVALID = b'"\xff"'
PLACES = [
    b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "extra": %s}',
    b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "generation": %s}}',
    b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": %s}}',
    b'{"apiVersion": "v1", "kind": %s, "metadata": {"name": "a"}}',
    b'{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"remainingItemCount": %s}, "items": []}',
    b'{"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "a", "extra": %s}}]}',
    b"%s",
]


@pytest.mark.parametrize("value", [HUGE, DEEP, INVALID], ids=["number of 5,000 digits", "deep nesting", "no UTF-8"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [kind_of(ConfigMap), unstructured_kind("v1", "ConfigMap"), metadata_only(ConfigMap)])
def test_hostile_json_raises_nothing_but_a_codec_error(kind: Kind[Any], place: bytes, value: bytes) -> None:
    """Every way to decode, and what an update does with a field that the class does not have."""
    data = place.replace(b"%s", value)
    for function in (decode_partial, decode_head, split_list, lambda data: decode_list(data, kind)):
        with suppress(DecodeError):
            function(data)
    peek_key(data)
    error_from_event(data)
    try:
        obj = decode(data, kind)
    except DecodeError:
        return
    with suppress(CodecError):
        encode(deep_copy(obj))
    if not isinstance(obj, PartialObjectMetadata):
        with suppress(CodecError):
            other = decode(data, kind)
            if isinstance(obj, Unstructured):
                retain_status(obj, other)
            encode(obj)
