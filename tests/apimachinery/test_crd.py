"""Definitions from classes."""

from __future__ import annotations

import types
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from opsdk.apimachinery.crd import crd_for, printer_columns, schema_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, Unstructured
from opsdk.apimachinery.quantity import IntOrString, Quantity
from opsdk.apimachinery.time import MicroTime, Time
from opsdk.cluster.cluster import Cluster
from opsdk.errors import InvalidError, UsageError
from opsdk.rbac.rules import RbacRule
from opsdk.structured_merge.value import JsonObject


class Size(Enum):
    """How large."""

    SMALL = "S"
    LARGE = "L"


class Port(Model, kw_only=True):
    """A port.

    More about ports.
    """

    number: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    name: str = ""


class Spec(Model, kw_only=True):
    """What is wanted."""

    image: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern="^[a-z]+$", description="The image.")]
    replicas: Annotated[int, msgspec.Meta(ge=0, examples=[1])] = 1
    ratio: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    debug: bool = False
    size: Size = Size.SMALL
    policy: Literal["Keep", "Drop"] = "Keep"
    level: Literal[1, 2] | None = None
    port: IntOrString | None = None
    memory: Quantity | None = None
    data: bytes = b""
    until: Time | None = None
    at: MicroTime | None = None
    ports: Annotated[list[Port], msgspec.Meta(min_length=1, max_length=9)] = msgspec.field(default_factory=list)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    by_port: dict[str, Port] = msgspec.field(default_factory=dict)
    anything: Any = None
    free: JsonObject = msgspec.field(default_factory=dict)
    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class Status(Model, kw_only=True):
    """What is."""

    conditions: list[Condition] = msgspec.field(default_factory=list)


class Site(Object[Spec, Status]):
    """A website."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")
    short_names = ("st",)
    categories = ("all",)
    printer_columns = printer_columns(("Image", ".spec.image"), ("Age", ".metadata.creationTimestamp", "date"))


def spec_of(kind: type[Object[Any, Any]] = Site) -> JsonObject:
    """The schemas of the spec's fields."""
    tree: JsonObject = schema_for(kind)["properties"]["spec"]["properties"]
    return tree


def test_the_definition_of_a_kind() -> None:
    """Names, scope, one version that is served and stored, the status subresource, columns."""
    crd = crd_for(Site)
    assert crd["metadata"] == {"name": "sites.demo.opsdk.dev"}
    spec = crd["spec"]
    assert spec["names"] == {
        "plural": "sites",
        "singular": "site",
        "kind": "Site",
        "listKind": "SiteList",
        "shortNames": ["st"],
        "categories": ["all"],
    }
    assert spec["scope"] == "Namespaced"
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)
    assert version["subresources"] == {"status": {}}
    assert [c["jsonPath"] for c in version["additionalPrinterColumns"]] == [
        ".spec.image",
        ".metadata.creationTimestamp",
    ]


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        (
            "image",
            {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[a-z]+$", "description": "The image."},
        ),
        ("replicas", {"type": "integer", "format": "int64", "minimum": 0, "default": 1, "example": 1}),
        (
            "ratio",
            {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1, "exclusiveMaximum": True},
        ),
        ("debug", {"type": "boolean", "default": False}),
        ("size", {"type": "string", "enum": ["S", "L"], "default": "S"}),
        ("policy", {"type": "string", "enum": ["Drop", "Keep"], "default": "Keep"}),
        ("level", {"type": "integer", "enum": [1, 2]}),
        ("port", {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}),
        ("until", {"type": "string", "format": "date-time"}),
        ("at", {"type": "string", "format": "date-time"}),
        ("labels", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("anything", {"x-kubernetes-preserve-unknown-fields": True}),
        ("free", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ("clusterIP", {"type": "string"}),
    ],
)
def test_field_types_become_a_structural_schema(field: str, schema: JsonObject) -> None:
    """Types, constraints and defaults of fields become a structural schema."""
    result = spec_of()[field]
    if "enum" in result:
        result = {**result, "enum": sorted(result["enum"])} if field != "size" else result
    assert result == schema


def test_nested_objects_and_lists() -> None:
    """The schema of a nested object has its required fields, sizes and docstring's first paragraph."""
    ports = spec_of()["ports"]
    assert (ports["type"], ports["minItems"], ports["maxItems"]) == ("array", 1, 9)
    item = ports["items"]
    assert item["required"] == ["number"]
    assert item["description"] == "A port."
    assert item["properties"]["number"] == {"type": "integer", "format": "int64", "minimum": 1, "maximum": 65535}
    assert spec_of()["byPort"]["additionalProperties"]["required"] == ["number"]


def test_the_root() -> None:
    """Spec is required, metadata undescribed, conditions are a map by type, the rest is the server's."""
    schema = schema_for(Site)
    assert schema["required"] == ["spec"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["properties"]["kind"] == {"type": "string"}
    conditions = schema["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert "lastTransitionTime" in conditions["items"]["required"]


def test_classes_of_one_kind_are_its_versions() -> None:
    """Several classes of one kind are its versions; the first class is the storage version."""

    class SiteV2(Object[Spec, Status]):
        gvk = GroupVersionKind("demo.opsdk.dev", "v2", "Site")

    crd = crd_for(SiteV2, Site)
    assert [(v["name"], v["storage"]) for v in crd["spec"]["versions"]] == [("v2", True), ("v1", False)]


def test_a_kind_without_status() -> None:
    """Has no status subresource, and no status in its schema."""

    class Plain(Object[Spec, None]):
        gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Plain")
        plural = "plain"
        namespaced = False

    crd = crd_for(Plain)
    (version,) = crd["spec"]["versions"]
    assert "subresources" not in version
    assert "status" not in version["schema"]["openAPIV3Schema"]["properties"]
    assert (crd["metadata"]["name"], crd["spec"]["scope"]) == ("plain.demo.opsdk.dev", "Cluster")


class Node(Model, kw_only=True):
    """Contains itself."""

    children: list[Node] = msgspec.field(default_factory=list)


class Recursive(Object[Node, None]):
    """A tree."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Tree")


def test_what_cannot_be_defined() -> None:
    """No class, no group, different kinds, recursion, unions: a UsageError says what to do."""

    class Core(Object[Spec, None]):
        gvk = GroupVersionKind("", "v1", "Core")

    class Other(Object[Spec, None]):
        gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Other")

    class Choice(Model):
        either: dict[str, str] | str | None = None

    class Union(Object[Choice, None]):
        gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Union")

    with pytest.raises(UsageError, match="at least one class"):
        crd_for()
    with pytest.raises(UsageError, match="core group"):
        crd_for(Core)
    with pytest.raises(UsageError, match="not versions of one kind"):
        crd_for(Site, Other)
    with pytest.raises(UsageError, match="contains itself"):
        crd_for(Recursive)
    with pytest.raises(UsageError, match="union"):
        crd_for(Union)


async def test_a_server_takes_the_definition() -> None:
    """Every schema above is accepted by the local API server, defaults included, and an object of it goes round."""
    environment = pytest.importorskip("envtest.environment", reason="needs opsdk[envtest]")
    import asyncio

    from opsdk.apimachinery.kinds import unstructured_kind
    from opsdk.apimachinery.meta import ObjectMeta
    from opsdk.apimachinery.object import Unstructured
    from opsdk.cluster.cluster import Cluster

    async with environment.Environment() as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(Unstructured.from_tree(crd_for(Site)))
        await asyncio.sleep(5)
        site = Site(metadata=ObjectMeta(name="a", namespace="default"), spec=Spec(image="nginx", port="http"))
        site.spec.memory, site.spec.at = Quantity("1Gi"), MicroTime.of(datetime.fromisoformat("2026-01-01T00:00:00Z"))
        site.spec.data, site.spec.ports, site.spec.size = b"\x00\x01", [Port(number=80)], Size.LARGE
        sent = msgspec.structs.replace(site)
        await cluster.uncached.create(site)
        assert site.spec == sent.spec
        raw = await cluster.uncached.get(unstructured_kind("demo.opsdk.dev/v1", "Site"), "default/a")
        assert raw["spec"]["policy"] == "Keep"
        assert raw["spec"]["at"] == "2026-01-01T00:00:00.000000Z"


class Plain(Model, kw_only=True):
    """A spec."""

    color: str = ""


class Selectable(Object[Plain, None]):
    """A kind."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Thing")
    selectable_fields = (".spec.color",)


class Unselectable(Object[Plain, None]):
    """A kind."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1beta1", "Thing")


async def test_versions_with_equal_schemas_need_equal_selectable_fields() -> None:
    """Versions with equal schemas and unequal selectable fields are an error with opsdk's own message."""
    environment = pytest.importorskip("envtest.environment", reason="needs opsdk[envtest]")
    with pytest.raises(UsageError, match="selectable_fields: versions with equal schemas need equal ones"):
        crd_for(Selectable, Unselectable)
    crd, other = crd_for(Selectable), crd_for(Unselectable)
    crd["spec"]["versions"] += [{**other["spec"]["versions"][0], "storage": False}]
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        with pytest.raises(InvalidError, match="selectableFields"):
            await cluster.uncached.create(Unstructured.from_tree(crd))


@pytest.mark.parametrize(("kind", "plural"), [("Policy", "policies"), ("Gateway", "gateways"), ("Box", "boxes")])
def test_the_default_plural_is_the_usual_one(kind: str, plural: str) -> None:
    """Definition, webhook configuration and RBAC rules use one plural for a class that names none."""
    gvk = GroupVersionKind("demo.dev", "v1", kind)
    cls = types.new_class(kind, (Object[Model, Model],), exec_body=lambda namespace: namespace.update(gvk=gvk))
    assert crd_for(cls)["metadata"]["name"] == f"{plural}.demo.dev"
    assert str(RbacRule("get", cls)) == f"<RbacRule get {plural}.demo.dev>"
