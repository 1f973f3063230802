"""Columns of built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.steve.built_in_columns import COLUMNS
from opsdk.norman.steve.cluster_schemas import cluster_schemas
from opsdk.norman.steve.printer_fields import decorator
from opsdk.rest.discovery import ApiResource


def fields(group: str, kind: str, tree: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of an object by the names of their columns."""
    resource = ApiResource(group=group, version="v1", kind=kind, plural=f"{kind.lower()}s", namespaced=True)
    (schema,) = cluster_schemas([resource]).values()
    decorated = decorator(schema)({"metadata": {"name": "a"}, **tree})
    return dict(zip((column.name for column in schema.columns), decorated["metadata"]["fields"], strict=True))


@pytest.mark.parametrize(
    ("group", "kind", "tree", "expected"),
    [
        ("", "ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": "eA=="}}, {"Name": "a", "Data": 2}),
        ("apps", "Deployment", {"spec": {"replicas": 3}, "status": {"readyReplicas": 1}}, {"Ready": "1/3"}),
        (
            "",
            "Pod",
            {
                "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        {"ready": True, "restartCount": 2},
                        {"ready": False, "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
                    ],
                },
            },
            {"Ready": "1/2", "Status": "CrashLoopBackOff", "Restarts": 3},
        ),
        ("", "Service", {"spec": {"ports": [{"port": 80, "nodePort": 30080}]}}, {"Port(s)": "80:30080/TCP"}),
        (
            "",
            "Node",
            {
                "metadata": {"name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""}},
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
            {"Status": "Ready,SchedulingDisabled", "Roles": "control-plane"},
        ),
        ("rbac.authorization.k8s.io", "RoleBinding", {"roleRef": {"kind": "Role", "name": "r"}}, {"Role": "Role/r"}),
    ],
)
def test_cells_are_those_of_kubectl(group: str, kind: str, tree: dict[str, Any], expected: dict[str, Any]) -> None:
    """Computed cells of built-in kinds equal kubectl's."""
    assert expected.items() <= fields(group, kind, tree).items()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["ports", "containerStatuses", "conditions", "state", "replicas"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(("group", "kind"), COLUMNS)
@given(parts=st.fixed_dictionaries({}, optional=dict.fromkeys(("spec", "data", "roleRef", "rules"), _JSON)))
def test_an_object_of_any_shape_has_cells(group: str, kind: str, parts: dict[str, Any]) -> None:
    """An object with arbitrary fields has cells, and breaks no list."""
    assert fields(group, kind, parts)["Name"] == "a"
