"""Conversions that keep what a version cannot hold."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, TypedObject, to_dict
from opsdk.errors import ConversionError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.conversion import HubSpokeConverter, Spoke, check_round_trip
from opsdk.webhook.lost_fields import PREFIX, keep_lost, lost_fields, restore, restore_lost


class Port(Model):
    """A part that older versions do not have."""

    number: int = 0
    name: str = ""


class WideSpec(Model):
    """Everything but the note."""

    image: str = ""
    tags: list[str] = msgspec.field(default_factory=list)
    port: Port | None = None
    options: dict[str, int] = msgspec.field(default_factory=dict)


class Wide(Object[WideSpec, None]):
    """The hub."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v2", "Wide")


class NarrowSpec(Model):
    """One tag, the number of the port, and a note."""

    picture: str = ""
    tag: str = ""
    port: int | None = None
    note: str | None = None


class Narrow(Object[NarrowSpec, None]):
    """An old version."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Wide")


class Bare(Object[None, None]):
    """A version without any field."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1alpha1", "Wide")


def widen(old: Narrow) -> Wide:
    """From v1 to v2."""
    port = None if old.spec.port is None else Port(number=old.spec.port)
    return Wide(spec=WideSpec(image=old.spec.picture, tags=[old.spec.tag] if old.spec.tag else [], port=port))


def narrow(wide: Wide) -> Narrow:
    """From v2 to v1."""
    port = None if wide.spec.port is None else wide.spec.port.number
    return Narrow(spec=NarrowSpec(picture=wide.spec.image, tag=next(iter(wide.spec.tags), ""), port=port))


SPOKES = (
    Spoke(Narrow, widen, narrow),
    Spoke(Bare, lambda _: Wide(spec=WideSpec()), lambda _: Bare(spec=None)),
)
CONVERTER = HubSpokeConverter(Wide, *SPOKES, lossless=True)

WORDS = st.text("ab", max_size=2)
PORTS = st.none() | st.builds(Port, number=st.integers(0, 2), name=WORDS)
WIDE = st.builds(WideSpec, image=WORDS, tags=st.lists(WORDS, max_size=3), port=PORTS,
                 options=st.dictionaries(WORDS, st.integers(0, 2), max_size=2))  # fmt: skip
NARROW = st.builds(NarrowSpec, picture=WORDS, tag=WORDS, port=st.none() | st.integers(0, 2), note=st.none() | WORDS)
META = st.builds(ObjectMeta, name=st.just("a"), annotations=st.dictionaries(WORDS, WORDS, max_size=1))
OBJECTS = st.one_of(
    st.builds(lambda meta, spec: Wide(metadata=meta, spec=spec), META, WIDE),
    st.builds(lambda meta, spec: Narrow(metadata=meta, spec=spec), META, NARROW),
)


@given(OBJECTS)
def test_each_object_survives_each_version(obj: TypedObject) -> None:
    """There and back, with annotations of the user, through versions that hold nothing."""
    check_round_trip(CONVERTER, obj)


@given(OBJECTS, st.permutations(CONVERTER.api_versions))
def test_each_object_survives_a_walk_through_all_versions(obj: TypedObject, walk: list[str]) -> None:
    """What several versions cannot hold travels together."""
    tree = to_dict(obj)
    for version in [*walk, obj.api_version]:
        if version != tree["apiVersion"]:
            tree = CONVERTER.convert(tree, version)
    assert tree == to_dict(obj)


def test_without_the_option_it_is_lost() -> None:
    """The option is off by default."""
    with pytest.raises(ConversionError, match="/spec/port/name"):
        check_round_trip(HubSpokeConverter(Wide, *SPOKES), Wide(spec=WideSpec(port=Port(number=1, name="a"))))


def wide_as_narrow() -> JsonObject:
    """A wide object in the old version."""
    spec = WideSpec(image="a", tags=["x", "y"], port=Port(number=1, name="http"), options={"o": 1})
    return CONVERTER.convert(to_dict(Wide(metadata=ObjectMeta(name="a"), spec=spec)), Narrow.gvk.api_version)


@pytest.mark.parametrize(
    ("edit", "spec"),
    [
        ({"picture": "b"}, {"image": "b", "tags": ["x", "y"], "port": {"number": 1, "name": "http"}}),
        ({"tag": "z"}, {"image": "a", "tags": ["z"], "port": {"number": 1, "name": "http"}}),
        ({"port": 2}, {"image": "a", "tags": ["x", "y"], "port": {"number": 2, "name": "http"}}),
    ],
)
def test_an_edit_in_the_old_version_stays(edit: JsonObject, spec: JsonObject) -> None:
    """The other fields come back; a list that was edited stays as it is."""
    old = wide_as_narrow()
    old["spec"] |= edit
    assert CONVERTER.convert(old, Wide.gvk.api_version)["spec"] == {**spec, "options": {"o": 1}}


def test_a_part_that_was_removed_stays_away() -> None:
    """The name of a port without a port is dropped."""
    old = wide_as_narrow()
    del old["spec"]["port"]
    assert "port" not in CONVERTER.convert(old, Wide.gvk.api_version)["spec"]


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"path":[]}]', '[{"path":["metadata","name"],"lost":"b"}]'])
def test_an_annotation_of_others_changes_nothing(text: str) -> None:
    """It is removed: a user may write it."""
    tree: JsonObject = {"metadata": {"name": "a", "annotations": {PREFIX + "v1": text, "x": "y"}}, "spec": {}}
    assert restore_lost(tree, "v1") == {"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": {}}


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
SPECS = st.dictionaries(st.sampled_from("xyz"), TREES, max_size=3)


@given(SPECS, SPECS)
def test_what_differs_is_restored(original: JsonObject, returned: JsonObject) -> None:
    """For every pair of trees, through the text of the annotation."""
    lost = lost_fields(original, returned)
    assert json.dumps(restore(returned, lost), sort_keys=True) == json.dumps(original, sort_keys=True)
    annotated = keep_lost({"metadata": {}, **returned}, lost, "v1")
    assert restore_lost(annotated, "v1") == {"metadata": {}, **original}
