"""Thirty shapes of specs, for the tests of definitions from classes and of classes from definitions."""

from __future__ import annotations

import types
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import date
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from opsdk.apimachinery.crd import (
    PrinterColumn,
    Rule,
    Scale,
    embedded_resource,
    json_schema,
    list_type,
    map_type,
    nullable,
    preserve_unknown_fields,
    validations,
)
from opsdk.apimachinery.duration import Duration
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, TypedObject
from opsdk.apimachinery.quantity import IntOrString, Quantity
from opsdk.apimachinery.time import Time
from opsdk.structured_merge.value import JsonObject


class Size(Enum):
    """Sizes."""

    SMALL = "S"
    LARGE = "L"


class Level(Enum):
    """Levels."""

    LOW = 1
    HIGH = 10


class Strings(Model, kw_only=True):
    """Bounded strings."""

    name: Annotated[str, Meta(min_length=1, max_length=3, pattern="^[a-z]+$")]
    text: str = ""


class Integers(Model, kw_only=True):
    """Bounded integers."""

    count: Annotated[int, Meta(ge=0, le=10)]
    even: Annotated[int, Meta(multiple_of=2)] = 2
    strict: Annotated[int, Meta(gt=0, lt=5)] | None = None


class Numbers(Model, kw_only=True):
    """Bounded numbers."""

    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    factor: Annotated[float, Meta(ge=-1, le=1)] | None = None


class Int32(Model, kw_only=True):
    """Integers of 32 bits."""

    replicas: Annotated[int, Meta(ge=0, le=2**31 - 1), json_schema({"format": "int32"})] = 1


class Booleans(Model, kw_only=True):
    """Flags."""

    enabled: bool
    debug: bool = False
    check: bool = True


class Enums(Model, kw_only=True):
    """Enumerations."""

    size: Size
    level: Level = Level.LOW
    policy: Literal["Keep", "Drop"] = "Keep"
    number: Literal[1, 2] | None = None


class Nullable(Model, kw_only=True):
    """Explicit nulls."""

    required: int | None
    defaulted: int | None = 5
    marked: Annotated[str | None, nullable()] = None
    size: Annotated[Size | None, nullable()] = None
    items: list[int | None] = msgspec.field(default_factory=list)


class Optional(Model, kw_only=True):
    """Fields without defaults."""

    text: str | None = None
    count: int | None = None
    flag: bool | None = None
    ratio: float | None = None


class IntOrStrings(Model, kw_only=True):
    """Numbers or strings."""

    port: IntOrString
    surge: IntOrString = "25%"


class Quantities(Model, kw_only=True):
    """Quantities."""

    memory: Quantity
    cpu: Quantity | None = None


class Durations(Model, kw_only=True):
    """Durations."""

    timeout: Duration
    interval: Duration | None = None


class Times(Model, kw_only=True):
    """Times and dates."""

    start: Time
    day: date | None = None


class Bytes(Model, kw_only=True):
    """Bytes and identifiers."""

    data: bytes = b""
    uid: UUID | None = None


class Port(Model, kw_only=True):
    """A port.

    Attributes:
        number: the number of the port,
            in two lines.
        name: the name.
    """

    name: str
    number: Annotated[int, Meta(ge=1, le=65535)] = 80
    protocol: str = "TCP"


class Nested(Model, kw_only=True):
    """Objects in objects."""

    port: Port
    other: Port | None = None


class Filled(Model, kw_only=True):
    """A part with defaults only."""

    retries: int = 3
    mode: str = "fast"


class DefaultedObject(Model, kw_only=True):
    """An object that exists without being sent."""

    part: Filled = msgspec.field(default_factory=Filled)


class Lists(Model, kw_only=True):
    """Lists with sizes."""

    names: Annotated[list[str], Meta(min_length=1, max_length=2)]
    numbers: list[Annotated[int, Meta(ge=0)]] = msgspec.field(default_factory=list)


class ListsOfObjects(Model, kw_only=True):
    """Lists of objects."""

    ports: list[Port] = msgspec.field(default_factory=list)


class ListsOfLists(Model, kw_only=True):
    """Lists in lists."""

    matrix: list[list[int]] = msgspec.field(default_factory=list)


class DefaultedList(Model, kw_only=True):
    """A list with a default."""

    zones: list[str] = msgspec.field(default_factory=lambda: ["a", "b"])


class Sets(Model, kw_only=True):
    """Lists of type set."""

    tags: set[str] = msgspec.field(default_factory=set)
    zones: Annotated[list[str], list_type("set")] = msgspec.field(default_factory=list)


class Maps(Model, kw_only=True):
    """Lists of type map."""

    ports: Annotated[list[Port], list_type("map", keys=("name", "protocol"))] = msgspec.field(default_factory=list)


class Atomic(Model, kw_only=True):
    """Atomic lists and maps."""

    command: Annotated[list[str], list_type("atomic")] = msgspec.field(default_factory=list)
    selector: Annotated[dict[str, str], map_type("atomic")] = msgspec.field(default_factory=dict)
    port: Annotated[Port | None, map_type("atomic")] = None


class Dicts(Model, kw_only=True):
    """Dicts with sizes."""

    labels: Annotated[dict[str, str], Meta(max_length=2)] = msgspec.field(default_factory=dict)
    limits: dict[str, Annotated[int, Meta(ge=0)]] = msgspec.field(default_factory=dict)


class DictsOfObjects(Model, kw_only=True):
    """Dicts of objects."""

    ports: dict[str, Port] = msgspec.field(default_factory=dict)


class Free(Model, kw_only=True):
    """Unknown fields."""

    values: JsonObject = msgspec.field(default_factory=dict)
    anything: Any = None
    port: Annotated[Port | None, preserve_unknown_fields()] = None


class Embedded(Model, kw_only=True):
    """A whole object."""

    template: Annotated[JsonObject, embedded_resource()] = msgspec.field(default_factory=dict)


class Ruled(Model, kw_only=True):
    """Rules of the class and of a field."""

    rules = (Rule("self.low <= self.high", message="low exceeds high", field_path=".low"),)

    low: int = 0
    high: Annotated[int, validations(Rule("self != 13", reason="FieldValueForbidden"))] = 1


class Conditions(Model, kw_only=True):
    """Conditions."""

    conditions: list[Condition] = msgspec.field(default_factory=list)


class Renamed(Model, kw_only=True):
    """Names that are special in Python or JSON."""

    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    from_: int = msgspec.field(default=1, name="from")
    type: str = "x"
    validations: str = "hides the marker"


class Described(Model, kw_only=True):
    """A description "with quotes".

    Attributes:
        count: how many.
    """

    count: int = 1
    size: Annotated[int, Meta(description="how large", examples=[3])] = 1


@dataclass
class Data:
    """A dataclass."""

    image: str
    replicas: Annotated[int, Meta(ge=0)] = 1
    ports: list[Port] = dataclass_field(default_factory=list)


class Status(Model, kw_only=True):
    """The observed state."""

    replicas: int | None = None
    selector: str = ""
    conditions: list[Condition] = msgspec.field(default_factory=list)


SPECS: tuple[type, ...] = (
    Strings,
    Integers,
    Numbers,
    Int32,
    Booleans,
    Enums,
    Nullable,
    Optional,
    IntOrStrings,
    Quantities,
    Durations,
    Times,
    Bytes,
    Nested,
    DefaultedObject,
    Lists,
    ListsOfObjects,
    ListsOfLists,
    DefaultedList,
    Sets,
    Maps,
    Atomic,
    Dicts,
    DictsOfObjects,
    Free,
    Embedded,
    Ruled,
    Conditions,
    Renamed,
    Described,
    Data,
)


def kind_with(spec: type, status: type | None = None) -> type[TypedObject]:
    """Return a kind whose spec is `spec`."""
    generic: Any = Object
    gvk = GroupVersionKind("shapes.opsdk.dev", "v1", spec.__name__)
    return types.new_class(spec.__name__, (generic[spec, status],), exec_body=lambda body: body.update(gvk=gvk))


class Full(Object[Int32, Status]):
    """All declarations of a kind."""

    gvk: ClassVar[GroupVersionKind] = GroupVersionKind("shapes.opsdk.dev", "v1", "Full")
    plural = "fulls"
    singular = "fullone"
    list_kind = "FullCollection"
    short_names = ("fl",)
    categories = ("all", "shapes")
    namespaced = False
    storage = True
    scale = Scale(label_selector_path=".status.selector")
    selectable_fields = (".spec.replicas",)
    printer_columns = (
        PrinterColumn(name="Replicas", json_path=".spec.replicas", type="integer", priority=1, description="How many."),
    )
    rules = (Rule("self.spec.replicas < 100"),)


class FullBeta(Object[Integers, None]):
    """All declarations of a kind."""

    gvk: ClassVar[GroupVersionKind] = GroupVersionKind("shapes.opsdk.dev", "v1beta1", "Full")
    served = False
    deprecated = True
    deprecation_warning = "use v1"
