"""Objects that were stored before a bound came."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from crd_shapes import SPECS, kind_with
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from opsdk.apimachinery.codec import decode, decode_tree, encode
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, to_dict
from opsdk.apimachinery.unbounded import convert_unbounded
from opsdk.errors import DecodeError
from opsdk.structured_merge.value import JsonObject

Small = Annotated[int, Meta(ge=0, le=5)]
Short = Annotated[str, Meta(min_length=1, max_length=3, pattern="^[a-z]+$")]


class Part(Model, kw_only=True):
    """A part with bounds."""

    size: Small = 1
    name: Short


class BoundedSpec(Model, kw_only=True):
    """Bounds at every depth."""

    replicas: Small = 1
    part: Part | None = None
    parts: Annotated[list[Part], Meta(max_length=2)] = msgspec.field(default_factory=list)
    by_name: dict[str, Part] = msgspec.field(default_factory=dict)
    sizes: list[Small] = msgspec.field(default_factory=list)
    either: Small | Short | None = None
    plain: int = 0


class Bounded(Object[BoundedSpec, None]):
    """A kind with bounds."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Bounded")


HEAD = {"apiVersion": "demo.opsdk.dev/v1", "kind": "Bounded", "metadata": {"name": "a"}}
_NUMBERS = st.integers(-10, 10)
_PARTS = st.fixed_dictionaries({"name": st.text(max_size=6)}, optional={"size": _NUMBERS, "unknown": _NUMBERS})
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "replicas": _NUMBERS,
        "part": _PARTS,
        "parts": st.lists(_PARTS, max_size=4),
        "byName": st.dictionaries(st.sampled_from("ab"), _PARTS),
        "sizes": st.lists(_NUMBERS, max_size=3),
        "either": _NUMBERS | st.text(max_size=5),
        "plain": _NUMBERS,
        "unknown": _NUMBERS,
    },
)


@given(_SPECS)
def test_whatever_the_bounds_are_an_object_is_read(spec: JsonObject) -> None:
    """Each value is there, in the user's classes; writing the object back changes nothing."""
    obj = decode(msgspec.json.encode({**HEAD, "spec": spec}), kind_of(Bounded))
    assert type(obj.spec) is BoundedSpec
    assert obj.spec.replicas == spec.get("replicas", 1)
    assert [type(part) for part in obj.spec.parts] == [Part] * len(spec.get("parts", ()))
    assert [part.name for part in obj.spec.parts] == [part["name"] for part in spec.get("parts", ())]
    assert {name: part.name for name, part in obj.spec.by_name.items()} == {
        name: part["name"] for name, part in spec.get("byName", {}).items()
    }
    assert decode_tree(to_dict(obj), kind_of(Bounded)) == obj
    assert decode(encode(obj), kind_of(Bounded)) == obj
    for name, value in to_dict(obj)["spec"].items():
        assert value == spec[name]


@given(_SPECS)
def test_bounds_hold_where_they_must(spec: JsonObject) -> None:
    """With `bounds`, exactly the values that msgspec refuses are refused."""
    data = msgspec.json.encode({**HEAD, "spec": spec})
    try:
        msgspec.json.decode(msgspec.json.encode(spec), type=BoundedSpec)
    except msgspec.ValidationError:
        with pytest.raises(DecodeError):
            decode(data, kind_of(Bounded), bounds=True)
    else:
        assert decode(data, kind_of(Bounded), bounds=True) == decode(data, kind_of(Bounded))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"replicas": "many"}, r"spec\.replicas: Expected `int`, got `str`: correct the object, or the fields of "),
        ({"replicas": 9, "plain": "x"}, r"spec\.plain: Expected `int`, got `str`: correct the object, "),
        ({"parts": [{"size": 9}]}, r"spec\.parts\[0\]: Object missing required field `name`: correct"),
    ],
)
def test_another_type_is_still_an_error(spec: JsonObject, message: str) -> None:
    """A wrong type is an error with its path, also beside a value out of bounds."""
    with pytest.raises(DecodeError, match=message):
        decode(msgspec.json.encode({**HEAD, "spec": spec}), kind_of(Bounded))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_every_shape_has_a_class_without_bounds(spec: Any) -> None:
    """All shapes of specs can be read so: enumerations, unions, generics, dataclasses."""
    kind = kind_with(spec)
    with pytest.raises(msgspec.ValidationError):
        convert_unbounded({"metadata": {"name": 1}}, kind)
