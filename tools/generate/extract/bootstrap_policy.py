"""The RBAC objects that every cluster starts with, from the expected output of Kubernetes' own tests of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from opsdk.apimachinery.serializer.yaml_documents import read_documents
from tools.generate.policy_facts import PolicyObject, sorted_policy

_TESTDATA = Path("plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata")
_FILES = (
    "cluster-roles.yaml",
    "cluster-role-bindings.yaml",
    "controller-roles.yaml",
    "controller-role-bindings.yaml",
    "namespace-roles.yaml",
    "namespace-role-bindings.yaml",
)
"""The objects of the default feature gates: those of ``*-featuregates.yaml`` need gates that are off."""


def read_policy(checkout: Path) -> list[PolicyObject]:
    """The objects of all files: ClusterRoles, ClusterRoleBindings, Roles, RoleBindings, each by namespace and name."""
    texts = ((checkout / _TESTDATA / name).read_text() for name in _FILES)
    return sorted_policy(item for text in texts for item in parse_list(text))


def parse_list(text: str) -> Iterator[PolicyObject]:
    """The items of a List in YAML, without what the server fills in later."""
    [document] = read_documents(text.encode())
    for item in document["items"]:
        metadata = {key: value for key, value in item["metadata"].items() if key != "creationTimestamp"}
        yield {**item, "metadata": metadata}
