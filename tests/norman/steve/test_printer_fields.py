"""The values of columns, and the virtual fields."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.norman.steve.cluster_schemas import SteveColumn, SteveSchema
from opsdk.norman.steve.printer_fields import decorator, undecorate, value_at

TREE: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"a.b/c": "l"}},
    "spec": {"ports": [{"name": "web", "port": 80}, {"name": "dns", "port": 53}]},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".metadata.name", "a"),
        (".metadata.labels['a.b/c']", "l"),
        (".spec.ports[1].port", 53),
        (".spec.ports[9].port", None),
        ('.spec.ports[?(@.name=="web")].port', 80),
        ('.spec.ports[?(@.name=="x")].port', None),
        (".spec.ports.name", None),
        (".metadata[0]", None),
        (".spec.ports[*].port", None),
        ("..name", None),
        ("", TREE),
    ],
)
def test_a_column_has_the_value_of_its_path(path: str, value: object) -> None:
    """A path that cannot be parsed has no value."""
    assert value_at(TREE, path) == value


def test_an_object_is_decorated_and_what_was_added_is_removed_again() -> None:
    """State and fields are added for users and removed for the cluster; the argument is unchanged."""
    schema = SteveSchema(
        id="x",
        plural_name="x",
        group="demo.dev",
        version="v1",
        kind="X",
        resource="xs",
        namespaced=True,
        columns=(SteveColumn(name="Name", json_path=".metadata.name"),),
    )
    decorated = decorator(schema)(TREE)
    assert decorated["metadata"]["fields"] == ["a"]
    assert decorated["metadata"]["state"] == {"name": "active", "error": False, "transitioning": False, "message": ""}
    assert undecorate(decorated) == {**TREE, "apiVersion": "demo.dev/v1", "kind": "X"}
    assert "state" not in TREE["metadata"]
    assert undecorate({"metadata": None}) == {"metadata": None}


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({}, "active"),
        ({"status": {"phase": "Bound"}}, "bound"),
        ({"status": {"conditions": [{"type": "Stalled", "status": "True"}], "phase": "Ready"}}, "error"),
        ({"status": {"conditions": [{"type": "Reconciling", "status": "True"}]}}, "in-progress"),
        ({"status": {"phase": 3}}, "active"),
    ],
)
def test_states_have_the_names_of_the_ui(parts: dict[str, Any], name: str) -> None:
    """The phase of an object, or whether it is active, in progress, in error or being removed."""
    schema = SteveSchema(
        id="demo.dev.site", plural_name="demo.dev.sites", group="demo.dev", version="v1", kind="Site",
        resource="sites", namespaced=True,
    )  # fmt: skip
    tree = {"metadata": {"name": "a"}, **parts}
    assert decorator(schema)(tree)["metadata"]["state"]["name"] == name
    removed = {**tree, "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert decorator(schema)(removed)["metadata"]["state"]["name"] == "removing"
