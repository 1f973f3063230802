"""The generated table."""

from __future__ import annotations

import pytest

from envtest.data.schemas import types
from envtest.data.versions import VERSIONS
from opsdk.api.generated_kinds import BUILT_IN
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.children.kinds import BuiltInKind, built_in_kind, built_in_kinds, type_schemas
from opsdk.structured_merge.schema import SchemaSet


def test_every_type_has_a_schema_and_every_reference_a_type() -> None:
    """All types compile, down to the last field."""
    schemas = SchemaSet(type_schemas())
    pending = [kind.type_name for kind in built_in_kinds().values()]
    names: set[str] = set()
    while pending:
        name = pending.pop()
        names.add(name)
        assert repr(schemas.of(name))
        references = str(type_schemas()[name]).split("#/components/schemas/")[1:]
        pending += [ref for text in references if (ref := text.partition("'")[0]) not in names]
    assert names == set(type_schemas())
    assert len(type_schemas()) == len(names)


def test_lists_and_maps_merge_as_in_the_server() -> None:
    """The table is a part of the server's schemas, so its merge rules are those of the server."""
    ours = type_schemas()
    checked = set()
    for version in VERSIONS:
        for long_name, schema in types(version).items():
            name = ".".join(long_name.split(".")[-3:])
            for field, full in schema.get("properties", {}).items() if name in ours else ():
                checked.add((name, field))
                for key in ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"):
                    assert ours[name]["properties"][field].get(key) == full.get(key), (version, name, field)
    assert checked == {(name, field) for name, schema in ours.items() for field in schema.get("properties", {})}


def test_kinds_are_those_of_the_api_package() -> None:
    """Each kind has a typed class; reviews and other kinds that cannot be applied are missing."""
    assert set(built_in_kinds()) <= set(BUILT_IN)
    assert built_in_kind(GroupVersionKind("", "v1", "Node")) == BuiltInKind("core.v1.Node", False, True)
    assert built_in_kind(GroupVersionKind("authorization.k8s.io", "v1", "SubjectAccessReview")) is None
    with pytest.raises(KeyError):
        type_schemas()["core.v1.Nothing"]
