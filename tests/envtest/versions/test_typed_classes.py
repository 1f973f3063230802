"""Typed classes have each field of each kind of each version, also of alpha and beta kinds."""

from __future__ import annotations

import importlib
import json
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from envtest.data.resources import rows
from envtest.data.schemas import types
from envtest.data.versions import DEFAULT, VERSIONS
from opsdk.api.generated_kinds import BUILT_IN
from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.structured_merge.value import JsonObject
from tests.envtest.versions.whole_objects import WholeObjects
from tools.generate.facts import parse_facts, read_facts
from tools.generate.overlay import Overlay
from tools.generate.unstable import UnstableKinds
from tools.generate.versions import read_overlays

REPOSITORY = Path(__file__).parents[3]
Schemas = Mapping[str, JsonObject]


def unstable_of(version: str) -> UnstableKinds:
    """Return the alpha and beta kinds of a version, and those that 1.36 has besides."""
    base = parse_facts(read_facts(REPOSITORY)).unstable
    overlays: dict[str, Overlay] = {each.minor: each for each in read_overlays(REPOSITORY)}
    if version == DEFAULT:
        return base
    own = overlays[version].unstable
    return UnstableKinds((*base.rows, *own.rows), {**base.schemas, **own.schemas})


def kinds_of(version: str) -> Iterator[tuple[GroupVersionKind, str]]:
    """Yield the stored kinds of a version with the names of their schemas: stable ones first."""
    schemas = types(version)
    for row in rows(version):
        info = row.info
        if not info.subresource and {"create", "list"} <= set(row.verbs):
            name = schemas.name_of(info.group, info.version, info.kind)
            assert name is not None
            yield GroupVersionKind(info.group, info.version, info.kind), name
    for name, schema in unstable_of(version).schemas.items():
        for each in schema.get("x-kubernetes-group-version-kind", ()):
            gvk = GroupVersionKind(each["group"], each["version"], each["kind"])
            if gvk in BUILT_IN:
                yield gvk, name


@pytest.mark.parametrize(
    ("version", "counts"), [("1.35", (86, 2548)), ("1.36", (87, 2586)), ("1.37", (98, 2922))], ids=VERSIONS
)
def test_an_object_with_every_field_goes_through_its_class(version: str, counts: tuple[int, int]) -> None:
    """The class has each field, and the object comes back equal from JSON and from YAML."""
    objects = WholeObjects(ChainMap(dict(types(version)), dict(unstable_of(version).schemas)))
    kinds = list(kinds_of(version))
    for gvk, name in kinds:
        tree = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": {"name": "a"}, **objects.of(name)}
        module, _, cls = BUILT_IN[gvk].partition(":")
        kind = kind_of(getattr(importlib.import_module(module), cls))
        decoded = decode(json.dumps(tree).encode(), kind)
        assert to_builtins(decoded) == tree, gvk
        assert json.loads(encode(decoded)) == tree, gvk
        [written] = read_documents(to_yaml([decoded]).encode())
        assert written == tree, gvk
        assert decode(json.dumps(written).encode(), kind) == decoded, gvk
    assert (len(kinds), len(objects.fields)) == counts
