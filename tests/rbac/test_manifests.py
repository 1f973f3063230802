"""Manifests grant exactly their rules, with equal bytes for equal rules."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opsdk.api.rbac.v1 import ClusterRole, Role
from opsdk.errors import UsageError
from opsdk.rbac.manifests import RbacNames, manifests, to_yaml
from opsdk.rbac.permissions import Permission, RuleSet

NAMES = RbacNames(name="site", namespace="system", service_account="robot")
rule_sets = st.lists(
    st.builds(
        Permission,
        st.sampled_from(("get", "list", "create")),
        st.sampled_from(("", "apps")),
        st.sampled_from(("pods", "pods/log", "deployments")),
        st.sampled_from(("", "a")),
        st.sampled_from(("", "x", "y")),
        st.just(""),
    )
).map(RuleSet)


@given(rule_sets)
def test_the_roles_grant_the_rules(rules: RuleSet) -> None:
    """The roles of the manifests together grant exactly the set, each in its namespace."""
    objects = manifests(rules, NAMES)
    granted = RuleSet()
    for role in objects:
        if isinstance(role, ClusterRole | Role):
            granted |= RuleSet.from_policy_rules(role.rules, role.metadata.namespace)
    assert granted.normalized() == rules.normalized()


@given(rule_sets)
def test_equal_rules_have_equal_bytes(rules: RuleSet) -> None:
    """The YAML depends on the rules only; every binding names its role and the service account."""
    text = to_yaml(manifests(rules, NAMES))
    assert text == to_yaml(manifests(RuleSet(reversed(list(rules))), NAMES))
    documents = list(yaml.safe_load_all(text))
    bindings = [d for d in documents if d["kind"].endswith("Binding")]
    assert len(documents) == 1 + 2 * len(bindings)
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "system"}]
        assert binding["roleRef"]["kind"] == binding["kind"].removesuffix("Binding")


def test_an_operator_of_one_namespace_has_no_cluster_role() -> None:
    """Least privilege: what is needed in one namespace becomes a Role there."""
    rules = RuleSet([Permission("list", "", "pods", namespace="x")])
    assert [obj.kind for obj in manifests(rules, NAMES)] == ["ServiceAccount", "Role", "RoleBinding"]


def test_a_namespace_comes_first() -> None:
    """With `create_namespace`, kubectl can apply the file to an empty cluster."""
    names = RbacNames(name="site", namespace="system", create_namespace=True)
    first, account = manifests(RuleSet(), names)
    assert (first.kind, first.metadata.name, account.metadata.namespace) == ("Namespace", "system", "system")


def test_names_are_required() -> None:
    """A role without a name cannot be applied."""
    with pytest.raises(UsageError, match="need a name"):
        RbacNames(name="")
