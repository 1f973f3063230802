"""Schemas from discovery, and the part that users see."""

from __future__ import annotations

from opsdk.apiserver.auth.rbac import PolicyRule
from opsdk.norman.collections.access_set import AccessSet
from opsdk.norman.steve.cluster_schemas import cluster_schemas, lookup, visible_schemas
from opsdk.rest.discovery import ApiResource

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
RESOURCES = (
    ApiResource(group="", version="v1", kind="Pod", plural="pods", verbs=VERBS),
    ApiResource(group="", version="v1", kind="Node", plural="nodes", namespaced=False, verbs=VERBS),
    ApiResource(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False, verbs=VERBS),
    ApiResource(group="apps", version="v1", kind="Deployment", plural="deployments", verbs=VERBS),
    ApiResource(group="apps", version="v1beta1", kind="Deployment", plural="deployments", verbs=VERBS),
    ApiResource(
        group="authentication.k8s.io", version="v1", kind="TokenReview", plural="tokenreviews", verbs=("create",)
    ),
)


def access(namespace: str, *verbs: str, resource: str = "*", names: tuple[str, ...] = ()) -> AccessSet:
    """Return permissions for all groups."""
    return AccessSet.of([(namespace, PolicyRule(verbs=verbs, groups=("*",), resources=(resource,), names=names))])


def test_each_kind_has_one_schema_of_its_preferred_version() -> None:
    """Ids and plural names are lower case with the group in front; both are found in any case."""
    schemas = cluster_schemas(RESOURCES)
    assert list(schemas) == ["pod", "node", "namespace", "apps.deployment", "authentication.k8s.io.tokenreview"]
    assert schemas["apps.deployment"].version == "v1"
    assert lookup(schemas, "Apps.Deployments") is schemas["apps.deployment"]
    assert lookup(schemas, "POD") is schemas["pod"]
    assert not schemas["authentication.k8s.io.tokenreview"].watchable
    names = [column.name for column in schemas["pod"].columns]
    assert names == ["Name", "Ready", "Status", "Restarts", "IP", "Node", "Age"]


def test_a_user_sees_the_types_with_a_permission_and_the_methods_of_the_permissions() -> None:
    """A permission in a namespace shows no cluster-scoped type except Namespace."""
    schemas = cluster_schemas(RESOURCES)
    assert visible_schemas(schemas, AccessSet.of([])) == {}
    received = visible_schemas(schemas, access("n", "*"))
    assert set(received) == {"pod", "namespace", "apps.deployment", "authentication.k8s.io.tokenreview"}
    assert received["namespace"].as_json("")["attributes"]["access"]["get"] == [{"namespace": "*", "resourceName": "n"}]
    only = visible_schemas(schemas, access("", "get", "delete", resource="nodes", names=("a",)))
    assert list(only) == ["node"]
    assert (only["node"].collection_methods, only["node"].resource_methods) == (("GET",), ("GET", "DELETE"))
    creator = visible_schemas(schemas, access("", "create", resource="tokenreviews"))
    assert creator["authentication.k8s.io.tokenreview"].collection_methods == ("POST",)
