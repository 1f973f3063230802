"""Access sets against the RBAC authorizer, and the objects that they show."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.auth.rbac import PolicyRule, RbacBinding, Subject
from opsdk.apiserver.auth.rule_resolver import RbacPolicy
from opsdk.apiserver.auth.user import User
from opsdk.norman.collections.access_set import AccessSet, VisibleObjects

USER = User(name="u")


def some(words: Sequence[str], *, least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    """A few of the words."""
    return st.lists(st.sampled_from(words), unique=True, min_size=least, max_size=3).map(tuple)


rules = st.one_of(
    st.builds(
        PolicyRule,
        verbs=some(("get", "list", "watch", "*")),
        groups=some(("", "apps", "*")),
        resources=some(("pods", "pods/log", "*/log", "namespaces", "nodes", "*")),
        names=some(("a", "n", "*"), least=0),
    ),
    st.builds(PolicyRule, verbs=some(("get", "*")), paths=some(("/x", "/x/*", "*"))),
)
grants = st.lists(st.tuples(st.sampled_from(("", "n", "m")), rules), max_size=5)
resource_requests = st.tuples(
    st.sampled_from(("get", "list", "delete")),
    st.sampled_from(("", "apps", "batch")),
    st.sampled_from(("pods", "pods/log", "nodes", "namespaces")),
    st.sampled_from(("", "n", "m")),
    st.sampled_from(("", "a", "n", "*")),
)


def policy_of(granted: Sequence[tuple[str, PolicyRule]]) -> RbacPolicy:
    """One role and one binding for each grant."""
    policy = RbacPolicy()
    for number, (namespace, rule) in enumerate(granted):
        name = f"r{number}"
        policy.put_role(namespace, name, [rule])
        kind = "Role" if namespace else "ClusterRole"
        subjects = (Subject(kind="User", name="u"),)
        policy.put_binding(
            RbacBinding(name=name, namespace=namespace, role_kind=kind, role=name, subjects=subjects),
        )
    return policy


@given(grants, st.lists(resource_requests, min_size=1, max_size=10))
def test_a_request_is_granted_exactly_where_the_authorizer_allows_it(
    granted: list[tuple[str, PolicyRule]], requests: list[tuple[str, str, str, str, str]]
) -> None:
    """Verbs, groups, resources, subresources, namespaces and names count as in RBAC."""
    access, policy = AccessSet.of(granted), policy_of(granted)
    for verb, group, resource, namespace, name in requests:
        plain, _, subresource = resource.partition("/")
        attributes = AuthorizerAttributes(
            user=USER, verb=verb, group=group, resource=plain, subresource=subresource, namespace=namespace, name=name
        )
        assert access.grants(verb, group, resource, namespace, name) == policy.decide(attributes).allowed


@given(grants, st.booleans())
def test_visible_objects_are_those_that_a_request_is_granted_for(
    granted: list[tuple[str, PolicyRule]], listing: bool
) -> None:
    """An object is in a list if its namespace may be listed, or if the object may be listed or read by its name."""
    access = AccessSet.of(granted)
    verb = "list" if listing else "watch"
    visible = access.visible(verb, "", "pods", namespaced=True)
    for namespace in ("n", "m"):
        for name in ("a", "b"):
            whole = access.grants(verb, "", "pods", namespace, name)
            is_named = any(
                a.name == name and a.namespace in (None, namespace) for a in access.places("get", "", "pods")
            )
            assert visible.contains(namespace, name) == (whole or (listing and is_named))


def test_a_role_of_a_namespace_shows_the_namespace_itself_and_no_other_cluster_object() -> None:
    """Requests for a Namespace are made in it, so its RoleBindings grant it; nodes have no namespace."""
    rule = PolicyRule(verbs=("*",), groups=("*",), resources=("*",))
    access = AccessSet.of([("n", rule)])
    assert access.visible("list", "", "namespaces", namespaced=False) == VisibleObjects(names={None: frozenset("n")})
    assert not access.visible("list", "", "nodes", namespaced=False)
    assert access.visible("list", "", "pods", namespaced=True).namespaces == {"n"}
    assert access.may("list", "", "pods", namespaced=True)
    assert not access.may("list", "", "nodes", namespaced=False)


@given(grants, st.randoms(use_true_random=False))
def test_a_set_depends_on_the_permissions_only(granted: list[tuple[str, PolicyRule]], random: object) -> None:
    """The order and repetition of grants do not change an access set."""
    shuffled = [*granted, *granted]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert AccessSet.of(shuffled) == AccessSet.of(granted)
    assert "AccessSet" in repr(AccessSet.of(granted))
