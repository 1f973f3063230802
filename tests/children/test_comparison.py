"""The comparison of a live object with a desired one, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.children.comparison import ApplyComparison, DifferenceKind, compare
from opsdk.children.desired import with_encoded_strings
from opsdk.children.field_types import built_in_type, custom_type
from opsdk.children.ownership import fields_to_own
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet, format_path
from opsdk.structured_merge.typed import ABSENT

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
META = {"name": "a", "namespace": "default"}


def managed(fields: FieldSet, name: str = "me", operation: str = "Apply", version: str = "apps/v1") -> dict[str, Any]:
    """An entry of managedFields."""
    return {"manager": name, "operation": operation, "apiVersion": version, "fieldsV1": fields.to_fields_v1()}


def compared(
    live: Any, spec: Any, *, others: Any = (), owned: FieldSet | None = None, version: str = "apps/v1"
) -> ApplyComparison:
    """Compare the specs of two deployments, of which an earlier apply owns what it would own now."""
    field_type = built_in_type(DEPLOYMENT)
    assert field_type is not None
    desired = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": META, "spec": spec}
    to_own = fields_to_own(desired, field_type.schema)
    entries = [managed(to_own if owned is None else owned, version=version), *others]
    tree = {**desired, "metadata": {**META, "managedFields": entries}, "spec": live}
    return compare(tree, desired, field_type, to_own=to_own, field_owner="me")


def containers(*items: Any) -> Any:
    """A spec with these containers."""
    return {"template": {"spec": {"containers": list(items)}}}


def container(**fields: Any) -> Any:
    """A spec with one container."""
    return containers({"name": "c", **fields})


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        (container(resources={"limits": {"memory": "1Gi"}}), container(resources={"limits": {"memory": "1024Mi"}})),
        (container(resources={"limits": {"cpu": "1"}}), container(resources={"limits": {"cpu": "1000m"}})),
        (container(resources={"limits": {"cpu": "500m"}}), container(resources={"limits": {"cpu": 0.5}})),
        (container(env=[{"name": "X"}]), container(env=[{"name": "X", "value": ""}])),
        (container(), container(args=[])),
        (container(), container(command=None)),
        (container(resources={}), container(resources={"limits": {}})),
        (
            container(ports=[{"containerPort": 80, "protocol": "TCP"}]),
            container(ports=[{"containerPort": 80}]),
        ),
        ({"replicas": 1}, {"replicas": None}),
        ({"replicas": 3}, {"replicas": 3.0}),
        ({"strategy": {"type": "RollingUpdate"}}, {"strategy": {}}),
        (container(imagePullPolicy="Always", image="a"), container(imagePullPolicy="", image="a")),
        ({"replicas": 1}, {"paused": False, "minReadySeconds": 0}),
    ],
)
def test_other_spellings_are_no_difference(live: Any, desired: Any) -> None:
    """Quantities, empty values and defaults that the server writes differently."""
    assert compared(live, desired).differences == ()


@pytest.mark.parametrize(
    ("live", "desired", "path"),
    [
        ({"replicas": 5}, {"replicas": 3}, ".spec.replicas"),
        ({"paused": True}, {"replicas": 0}, ".spec.replicas"),
        (container(image="a"), container(image="b"), '.spec.template.spec.containers[name="c"].image'),
        (container(args=["a", "b"]), container(args=["b", "a"]), '.spec.template.spec.containers[name="c"].args'),
        (containers({"name": "d"}), container(), '.spec.template.spec.containers[name="c"]'),
        (container(env=[{"name": "X", "value": "1"}]), container(env=[{"name": "X", "value": ""}]), ".value"),
        (container(imagePullPolicy="Never", image="a"), container(imagePullPolicy="", image="a"), ".imagePullPolicy"),
        (container(args=["a"]), container(args=[]), ".args"),
        ({"replicas": True}, {"replicas": 1}, ".spec.replicas"),
    ],
)
def test_other_values_are_differences(live: Any, desired: Any, path: str) -> None:
    """One difference, with the path of the value."""
    (difference,) = compared(live, desired).differences
    assert difference.kind is DifferenceKind.VALUE
    assert format_path(difference.path).endswith(path)


def test_the_order_of_keyed_items_counts() -> None:
    """The server takes the order of the desired items; items of others stay where they are."""
    a, b, other = {"name": "a"}, {"name": "b"}, {"name": "other"}
    assert compared(containers(a, other, b), containers(a, b)).differences == ()
    (difference,) = compared(containers(b, other, a), containers(a, b)).differences
    assert difference.kind is DifferenceKind.ORDER


def test_items_that_stand_twice_are_differences() -> None:
    """An apply replaces them by one."""
    a = {"name": "a"}
    assert compared(containers(a, a), containers(a)).differences[0].kind is DifferenceKind.VALUE


def test_owners_decide_about_equal_values() -> None:
    """A field that is not owned, or no longer desired, is a difference; so is an apply in another version."""
    path = ("f:spec", "f:replicas")
    (difference,) = compared({"replicas": 3}, {"replicas": 3}, owned=EMPTY).differences
    assert (difference.kind, difference.path) == (DifferenceKind.NOT_OWNED, path)
    paused = ("f:spec", "f:paused")
    both = {"replicas": 3, "paused": True}
    (difference,) = compared(both, {"paused": True}, owned=FieldSet.of(path, paused)).differences
    assert (difference.kind, difference.path) == (DifferenceKind.OWNED_BEFORE, path)
    (difference,) = compared({"replicas": 3}, {"replicas": 3}, version="apps/v1beta1").differences
    assert difference.kind is DifferenceKind.VERSION


def test_a_shared_field_is_taken_over_by_another_spelling() -> None:
    """The apply removes the other owner, although the value stays; an equal spelling shares the field."""
    path = ("f:spec", "f:template", "f:spec", "f:containers", 'k:{"name":"c"}', "f:resources", "f:limits", "f:memory")
    others = [managed(FieldSet.of(path), "other")]
    live = container(resources={"limits": {"memory": "1Gi"}})
    assert compared(live, live, others=others).differences == ()
    (difference,) = compared(live, container(resources={"limits": {"memory": "1024Mi"}}), others=others).differences
    assert (difference.kind, difference.path) == (DifferenceKind.SHARED, path)


def test_without_managed_fields_values_are_compared() -> None:
    """The result says that owners are unknown; an object that owns nothing needs none."""
    field_type = custom_type({"type": "object", "properties": {"a": {"type": "string"}}})
    tree = {"apiVersion": "v1", "kind": "K", "metadata": META, "a": "x"}
    fields = fields_to_own(tree, field_type.schema)
    result = compare(tree, tree, field_type, to_own=fields, field_owner="me")
    assert (result.differences, result.owners_known) == ((), False)
    empty = {key: tree[key] for key in ("apiVersion", "kind", "metadata")}
    assert compare(tree, empty, field_type, to_own=EMPTY, field_owner="me").owners_known


def test_string_data_is_compared_as_data() -> None:
    """For the same key, stringData wins over data, as on the server; another spelling is no difference."""
    field_type = built_in_type(GroupVersionKind("", "v1", "Secret"))
    assert field_type is not None
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": META}
    desired = with_encoded_strings({**head, "stringData": {"a": "x"}, "data": {"a": "AA=="}})
    fields = fields_to_own(desired, field_type.schema)
    for data, count in (("eA==", 0), ("eQ==", 1), ("eA==\n", 0)):
        live = {**desired, "metadata": {"managedFields": [managed(fields, version="v1")]}, "data": {"a": data}}
        assert len(compare(live, desired, field_type, to_own=fields, field_owner="me").differences) == count


def test_fields_that_an_apply_cannot_change_do_not_differ() -> None:
    """The status of a child does not count as a difference."""
    field_type = custom_type({"type": "object", "properties": {"status": {"type": "string"}}})
    tree = {"apiVersion": "v1", "kind": "K", "metadata": META, "status": "x"}
    ignored = FieldSet.of(("f:status",))
    result = compare({**tree, "status": "y"}, tree, field_type, to_own=EMPTY, field_owner="me", ignored=ignored)
    assert result.differences == ()
    (difference,) = compare({}, tree, field_type, to_own=EMPTY, field_owner="me").differences[1:]
    assert difference.live is ABSENT
