"""Permissions and sets of them: coverage, difference and the compact form, against the server's authorizer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.api.rbac.v1 import PolicyRule
from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.auth.rbac import PolicyRule as ServerRule
from opsdk.apiserver.auth.rbac import RbacBinding, Subject
from opsdk.apiserver.auth.rule_resolver import RbacPolicy
from opsdk.apiserver.auth.user import User
from opsdk.rbac.permissions import Permission, RuleSet, sorted_verbs

VERBS = ("get", "list", "create", "patch", "*")
GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "pods/log", "pods/status", "deployments", "*/status", "*")
NAMES = ("", "a", "b")
NAMESPACES = ("", "x", "y")
PATHS = ("/metrics", "/a", "/a/b", "/a/*", "/a*", "*")

on_resources = st.builds(
    Permission,
    st.sampled_from(VERBS),
    st.sampled_from(GROUPS),
    st.sampled_from(RESOURCES),
    st.sampled_from(NAMES),
    st.sampled_from(NAMESPACES),
    st.just(""),
)
on_paths = st.builds(lambda verb, path: Permission(verb, path=path), st.sampled_from(VERBS), st.sampled_from(PATHS))
permissions = on_resources | on_paths
rule_sets = st.lists(permissions, max_size=12).map(RuleSet)
requests = permissions.filter(lambda p: "*" not in f"{p.verb}{p.group}{p.resource}{p.path}")


def granted(rules: RuleSet) -> RuleSet:
    """What the policy rules of every namespace grant."""
    union = RuleSet()
    for namespace in rules.namespaces:
        union |= RuleSet.from_policy_rules(rules.policy_rules(namespace), namespace)
    return union


def server_policy(rules: RuleSet) -> RbacPolicy:
    """The roles and bindings of a server that grant a set to the user ``u``."""
    policy = RbacPolicy()
    for namespace in rules.namespaces:
        tree = [
            {
                "verbs": rule.verbs,
                "apiGroups": rule.api_groups,
                "resources": rule.resources,
                "resourceNames": rule.resource_names,
                "nonResourceURLs": rule.non_resource_urls,
            }
            for rule in rules.policy_rules(namespace)
        ]
        policy.put_role(namespace, "r", [ServerRule.of(rule) for rule in tree])
        kind = "Role" if namespace else "ClusterRole"
        subjects = (Subject(kind="User", name="u"),)
        policy.put_binding(RbacBinding(name="r", namespace=namespace, role_kind=kind, role="r", subjects=subjects))
    return policy


def attributes_of(request: Permission) -> AuthorizerAttributes:
    """The request as the server's authorizer gets it."""
    resource, _, subresource = request.resource.partition("/")
    return AuthorizerAttributes(
        user=User(name="u"),
        verb=request.verb,
        resource_request=bool(request.resource),
        group=request.group,
        resource=resource,
        subresource=subresource,
        namespace=request.namespace,
        name=request.name,
        path=request.path,
    )


@given(rule_sets, requests)
def test_the_servers_authorizer_agrees(rules: RuleSet, request: Permission) -> None:
    """A set covers a request exactly when the server allows it under the roles that the set becomes."""
    assert server_policy(rules).decide(attributes_of(request)).allowed is rules.covers(request)


@given(rule_sets)
def test_policy_rules_grant_exactly_the_set(rules: RuleSet) -> None:
    """Written as roles and read again, a set grants the same: nothing is lost, nothing is added."""
    assert granted(rules).normalized() == rules.normalized()
    assert not rules - granted(rules)
    assert not granted(rules) - rules


@given(rule_sets)
def test_the_normal_form_is_minimal(rules: RuleSet) -> None:
    """No permission of it is covered by the others, and it covers the whole set."""
    normal = rules.normalized()
    assert not rules - normal
    assert normal.permissions <= rules.permissions
    for permission in normal:
        assert not RuleSet(normal.permissions - {permission}).covers(permission)


@given(rule_sets, rule_sets, requests)
def test_union_and_difference(left: RuleSet, right: RuleSet, request: Permission) -> None:
    """A union covers what either covers; what is left of a difference is exactly what the other set does not cover."""
    assert (left | right).covers(request) is (left.covers(request) or right.covers(request))
    for permission in left:
        assert (permission in (left - right).permissions) is not right.covers(permission)
    assert not left - (left | right)


@given(permissions, permissions, permissions)
def test_coverage_is_an_order(a: Permission, b: Permission, c: Permission) -> None:
    """Each permission covers itself, and coverage is transitive."""
    assert a.covers(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


@given(st.lists(permissions, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_declarations_does_not_matter(given_permissions: list[Permission], random: object) -> None:
    """Equal sets have equal rules, in equal order, whatever order they were declared in."""
    shuffled = list(given_permissions)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for namespace in NAMESPACES:
        assert RuleSet(shuffled).policy_rules(namespace) == RuleSet(given_permissions).policy_rules(namespace)


def test_equal_verbs_share_a_rule() -> None:
    """Resources of a group with equal verbs stand in one rule, and so do groups with equal resources."""
    rules = RuleSet(Permission(verb, "", resource) for verb in ("list", "get") for resource in ("pods", "configmaps"))
    assert rules.policy_rules() == [
        PolicyRule(api_groups=[""], resources=["configmaps", "pods"], verbs=["get", "list"])
    ]
    events = RuleSet(Permission("create", group, "events") for group in ("events.k8s.io", ""))
    assert events.policy_rules() == [
        PolicyRule(api_groups=["", "events.k8s.io"], resources=["events"], verbs=["create"])
    ]


def test_names_stay_apart_from_whole_resources() -> None:
    """A rule with names never swallows the rule for every name, and the names of equal verbs share a rule."""
    rules = RuleSet([*(Permission("get", "", "secrets", name) for name in "ba"), Permission("list", "", "secrets")])
    assert rules.policy_rules() == [
        PolicyRule(api_groups=[""], resources=["secrets"], verbs=["list"]),
        PolicyRule(api_groups=[""], resources=["secrets"], resource_names=["a", "b"], verbs=["get"]),
    ]


def test_wildcards_of_subresources() -> None:
    """``*`` is everything, ``*/status`` the status of everything and no object; ``pods`` is no ``pods/log``."""
    for resource in ("pods", "pods/log", "*/status", "*"):
        assert Permission("get", "", "*").covers(Permission("get", "", resource, "a", "x"))
    status = Permission("patch", "apps", "*/status")
    assert status.covers(Permission("patch", "apps", "deployments/status", "a", "x"))
    assert not status.covers(Permission("patch", "apps", "deployments", "a", "x"))
    assert not Permission("get", "", "pods").covers(Permission("get", "", "pods/log", "a", "x"))


def test_a_namespace_is_not_all_namespaces() -> None:
    """A permission in one namespace does not allow a list across all of them."""
    assert not Permission("list", "", "pods", namespace="x").covers(Permission("list", "", "pods"))
    assert Permission("list", "", "pods").covers(Permission("list", "", "pods", namespace="x"))


def test_unknown_verbs_come_last() -> None:
    """Verbs of special resources, such as ``approve``, stand behind the usual ones."""
    assert sorted_verbs(["use", "delete", "approve", "get"]) == ("get", "delete", "approve", "use")
