"""Defaults that the comparison knows, against those of the server."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.data.resources import ServedResourceRow
from envtest.data.schemas import types
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.children import defaults
from opsdk.children.defaults import fill_defaults
from opsdk.children.field_types import built_in_type
from opsdk.children.kinds import type_schemas
from opsdk.children.written_form import written_form
from opsdk.errors import DecodeError
from tests.envtest.groups.trees import Maker, kinds, model_of

KINDS = pytest.mark.parametrize("row", kinds(), ids=lambda row: f"{row.info.group}/{row.info.kind}")


@KINDS
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_default_is_one_of_the_server(row: ServedResourceRow, seed: int) -> None:
    """Each default that opsdk fills in is also a default of the server, with the same value."""
    field_type = built_in_type(GroupVersionKind(row.info.group, row.info.version, row.info.kind))
    if field_type is None or row.info.kind in _ELSEWHERE:
        return
    name = types().name_of(row.info.group, row.info.version, row.info.kind)
    assert name is not None
    tree = Maker(random.Random(seed)).named(name, 0)
    tree |= {"apiVersion": row.info.api_version, "kind": row.info.kind, "metadata": {"name": "a"}}
    tree.pop("status", None)
    model = model_of(row)
    try:
        theirs = model.default(model.decode(tree, memory=True).obj)
    except DecodeError:
        return
    ours = written_form(tree, field_type)
    assert list(_missing(ours, theirs, ())) == []


_ELSEWHERE = {
    "CustomResourceDefinition": "the server sets the names when it creates the object",
    "Node": "two fields for one value",
    "PersistentVolumeClaim": "the kind is filled in only inside a StatefulSet",
    "PriorityLevelConfiguration": "random types of responses",
    "Secret": "stringData is moved by the applier",
    "VolumeAttachment": "an inline volume has only some of the defaults of a PersistentVolume",
}
"""Kinds whose random objects differ, and why."""
_TWINS = ("serviceAccount", "rollingUpdate", "sessionAffinityConfig", "internalTrafficPolicy")
"""Fields that depend on another field, which is random here."""


def _missing(ours: Any, theirs: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key not in ("metadata", "status", *_TWINS):
                yield from _missing(value, theirs.get(key), (*path, key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, value in enumerate(ours):
            yield from _missing(value, theirs[index], (*path, index))
    elif ours != theirs and ours not in (None, {}, [], "", 0):
        yield path, ours, theirs


def test_all_names_are_types_and_fields() -> None:
    """A default of a type or a field that does not exist is a mistake."""
    schemas = type_schemas()
    for name, values in [*defaults._CONSTANTS.items(), *defaults.KEPT_IF_EMPTY.items()]:
        assert set(values) <= set(schemas[name]["properties"]), name
    assert set(defaults._DEFAULTERS) <= set(schemas)
    assert not set(defaults._CONSTANTS) & set(defaults._DEFAULTERS)


def test_defaults_are_not_shared() -> None:
    """A change of one object does not change the defaults of the next one."""
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    fill_defaults("core.v1.PodSpec", first)
    first["securityContext"]["runAsUser"] = 7
    fill_defaults("core.v1.PodSpec", second)
    assert second["securityContext"] == {}
    assert second["restartPolicy"] == "Always"
