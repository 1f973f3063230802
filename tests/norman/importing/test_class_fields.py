"""The fields of classes of all sorts."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, ClassVar, NewType, NotRequired, Required, TypedDict

import msgspec
import pydantic
import pytest

from opsdk.errors import UsageError
from opsdk.norman.importing.class_fields import ClassField, fields_of, is_structured, unwrap

Port = NewType("Port", int)


@dataclass
class Plain:
    """A dataclass."""

    cluster_id: str
    links: list[str]
    size: int = 3
    tags: list[str] = field(default_factory=list)
    note: str = field(default="x", metadata={"description": "A note."})
    count: ClassVar[int] = 0
    seed: InitVar[int] = 0


class Struct(msgspec.Struct, rename="camel"):
    """A struct."""

    cluster_id: str
    size: int = 3
    external_ip: str = msgspec.field(default="", name="externalIP")
    tags: list[str] = msgspec.field(default_factory=lambda: ["a"])
    unset: int | msgspec.UnsetType = msgspec.UNSET


class Keys(TypedDict):
    """A TypedDict with optional keys."""

    clusterID: str
    size: NotRequired[int]


class MoreKeys(Keys, total=False):
    """A TypedDict whose keys are optional, with one that is not."""

    name: Required[Annotated[str, "note"]]
    other: str


class PydanticModel(pydantic.BaseModel):
    """A pydantic model."""

    cluster_id: str
    size: Annotated[int, pydantic.Field(ge=1)] = pydantic.Field(3, description="A size.")
    name: str = pydantic.Field(alias="externalName", default="a")
    tags: list[str] = pydantic.Field(default_factory=list)


class Unresolvable(msgspec.Struct):
    """A struct with a name that does not exist."""

    a: Missing  # type: ignore[name-defined]  # noqa: F821


class Wrong(msgspec.Struct):
    """A struct with a default that has no form in JSON."""

    a: Any = object


def short(cls: type) -> list[tuple[str, str, object, bool]]:
    """Return name, attribute, default and required of all fields."""
    return [(each.name, each.attribute, each.default, each.required) for each in fields_of(cls)]


def test_fields_of_dataclasses() -> None:
    """Names become camelCase; links, class variables and init variables are not fields."""
    assert short(Plain) == [
        ("clusterId", "cluster_id", None, True),
        ("size", "size", 3, False),
        ("tags", "tags", None, False),
        ("note", "note", "x", False),
    ]
    assert fields_of(Plain)[-1].description == "A note."


def test_fields_of_structs() -> None:
    """Names are those of the encoder; a factory is called; UNSET is not a default."""
    assert short(Struct) == [
        ("clusterId", "cluster_id", None, True),
        ("size", "size", 3, False),
        ("externalIP", "external_ip", None, False),
        ("tags", "tags", ["a"], False),
        ("unset", "unset", None, False),
    ]


def test_typed_dicts() -> None:
    """Required and NotRequired are read also where annotations are texts."""
    assert short(Keys) == [("clusterId", "clusterID", None, True), ("size", "size", None, False)]
    assert {each.name: each.required for each in fields_of(MoreKeys)} == {
        "clusterId": True,
        "size": False,
        "name": True,
        "other": False,
    }


def test_pydantic_models() -> None:
    """Aliases are names, and constraints and descriptions are kept."""
    assert short(PydanticModel) == [
        ("clusterId", "cluster_id", None, True),
        ("size", "size", 3, False),
        ("externalName", "name", "a", False),
        ("tags", "tags", None, False),
    ]
    size: ClassField = fields_of(PydanticModel)[1]
    assert size.description == "A size."
    assert [each.ge for each in size.metadata] == [1]


@pytest.mark.parametrize(
    ("annotation", "types", "nullable", "metadata"),
    [
        (int, (int,), False, ()),
        (int | None, (int,), True, ()),
        (Annotated[int, 1] | None, (int,), True, (1,)),
        (Annotated[Annotated[int, 2] | str, 1], (int, str), False, (1, 2)),
        (Port, (int,), False, ()),
        (None, (), True, ()),
        (Any, (Any,), False, ()),
    ],
)
def test_annotations_are_unwrapped(annotation: Any, types: object, nullable: bool, metadata: object) -> None:
    """The order of Annotated, Optional and NewType does not matter."""
    result = unwrap(annotation)
    assert (result.types, result.nullable, result.metadata) == (types, nullable, metadata)


def test_what_is_no_class_with_fields() -> None:
    """Other classes, names that are not there, and defaults without JSON form are errors with the class."""
    assert not is_structured(int)
    assert not is_structured("text")
    for cls, text in (
        (int, "int has no fields: use a dataclass"),
        (Unresolvable, "Unresolvable: name 'Missing' is not defined"),
        (Wrong, "Wrong.a: the default has no JSON form"),
    ):
        with pytest.raises(UsageError, match=text):
            fields_of(cls)
