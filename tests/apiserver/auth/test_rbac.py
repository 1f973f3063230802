"""RBAC rules against a naive evaluator, and the index against a scan of all bindings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.auth.rbac import PolicyRule, RbacBinding, Subject, compact, escalation, uncovered_rules
from opsdk.apiserver.auth.rule_resolver import RbacPolicy
from opsdk.apiserver.auth.user import User

VERBS = ("get", "list", "*")
GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "pods/log", "*/log", "nodes", "*")
NAMES = ("a", "b")
PATHS = ("/x", "/x/*", "/x/y", "*")


def some(words: Sequence[str], *, least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    """A few of the words."""
    return st.lists(st.sampled_from(words), unique=True, min_size=least, max_size=3).map(tuple)


resource_rules = st.builds(
    PolicyRule,
    verbs=some(VERBS, least=1),
    groups=some(GROUPS, least=1),
    resources=some(RESOURCES, least=1),
    names=some(NAMES),
)
path_rules = st.builds(PolicyRule, verbs=some(VERBS, least=1), paths=some(PATHS, least=1))
rules = st.one_of(resource_rules, path_rules)
users = st.builds(
    User,
    name=st.sampled_from(["u", "v", "system:serviceaccount:n:s"]),
    groups=some(["g", "h"]),
)
attributes = st.one_of(
    st.builds(
        AuthorizerAttributes,
        user=users,
        verb=st.sampled_from(["get", "list", "delete"]),
        group=st.sampled_from(["", "apps"]),
        resource=st.sampled_from(["pods", "nodes"]),
        subresource=st.sampled_from(["", "log"]),
        name=st.sampled_from(["", "a", "b"]),
        namespace=st.sampled_from(["", "n", "m"]),
    ),
    st.builds(
        AuthorizerAttributes,
        user=users,
        verb=st.sampled_from(["get", "list"]),
        resource_request=st.just(value=False),
        path=st.sampled_from(["/x", "/x/y", "/x/y/z", "/z"]),
    ),
)


# ------------------------------------------------------------------ the model
def plainly_allows(rule: PolicyRule, attributes: AuthorizerAttributes) -> bool:
    """One rule, word by word."""
    if not attributes.resource_request:
        return any(
            (v in ("*", attributes.verb))
            and (p in ("*", attributes.path) or (p[-1] == "*" and attributes.path.startswith(p[:-1])))
            for v, p in product(rule.verbs, rule.paths)
        )
    whole = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    any_of_it = f"*/{attributes.subresource}" if attributes.subresource else whole
    return any(
        v in ("*", attributes.verb)
        and g in ("*", attributes.group)
        and r in ("*", whole, any_of_it)
        and (not rule.names or attributes.name in rule.names)
        for v, g, r in product(rule.verbs, rule.groups, rule.resources)
    )


def plainly_means(subject: Subject, binding: RbacBinding, user: User) -> bool:
    """Whether a subject is the user."""
    match subject.kind:
        case "User":
            return user.name == subject.name
        case "Group":
            return subject.name in user.groups
        case _:
            home = subject.namespace or binding.namespace
            return bool(home) and user.name == f"system:serviceaccount:{home}:{subject.name}"


World = tuple[dict[tuple[str, str], tuple[PolicyRule, ...]], dict[tuple[str, str], RbacBinding]]


def plainly_decides(world: World, attributes: AuthorizerAttributes) -> bool:
    """Every binding, every subject, every rule."""
    roles, bindings = world
    for binding in bindings.values():
        if binding.namespace and binding.namespace != attributes.namespace:
            continue
        if not any(plainly_means(s, binding, attributes.user) for s in binding.subjects):
            continue
        place = binding.namespace if binding.role_kind == "Role" else ""
        if any(plainly_allows(rule, attributes) for rule in roles.get((place, binding.role), ())):
            return True
    return False


# ------------------------------------------------------------------ laws of rules
@given(rules, attributes)
def test_a_rule_allows_what_its_words_say(rule: PolicyRule, attributes: AuthorizerAttributes) -> None:
    """Wildcards, subresources, names and path prefixes match as in the model."""
    assert rule.allows(attributes) == plainly_allows(rule, attributes)


@given(rules)
def test_a_rule_covers_itself_and_its_parts(rule: PolicyRule) -> None:
    """Covering is reflexive, and a rule is the union of its parts."""
    assert rule.covers(rule)
    assert all(rule.covers(part) for part in rule.parts())
    assert uncovered_rules([rule], [rule]) == []
    assert uncovered_rules(list(rule.parts()), [rule]) == []


@given(rules, rules, rules)
def test_covering_is_transitive(one: PolicyRule, two: PolicyRule, three: PolicyRule) -> None:
    """Covering is transitive."""
    if one.covers(two) and two.covers(three):
        assert one.covers(three)


@given(rules, rules, attributes)
def test_a_covering_rule_allows_no_less(one: PolicyRule, two: PolicyRule, attributes: AuthorizerAttributes) -> None:
    """A covering rule allows every request that the covered rule allows."""
    if one.covers(two) and two.allows(attributes):
        assert one.allows(attributes)


@given(st.lists(rules, max_size=4), st.lists(rules, max_size=4), attributes)
def test_covered_rules_grant_nothing_new(
    owned: list[PolicyRule], wanted: list[PolicyRule], attributes: AuthorizerAttributes
) -> None:
    """Covered rules allow no request that the owner's rules deny, and more rules never uncover one."""
    lacking = uncovered_rules(owned, wanted)
    assert uncovered_rules([*owned, *lacking], wanted) == []
    if not lacking:
        assert not any(r.allows(attributes) for r in wanted) or any(r.allows(attributes) for r in owned)


@given(st.lists(rules, max_size=5), attributes)
def test_compacting_changes_no_meaning(given_rules: list[PolicyRule], attributes: AuthorizerAttributes) -> None:
    """Joined rules allow exactly what the single ones did."""
    parts = [part for rule in given_rules for part in rule.parts()]
    joined = compact(parts)
    assert len(joined) <= len(parts)
    assert any(r.allows(attributes) for r in joined) == any(r.allows(attributes) for r in parts)


@given(rules)
def test_the_wire_form_keeps_everything(rule: PolicyRule) -> None:
    """A rule survives encoding and decoding."""
    assert PolicyRule.of(rule.wire()) == rule


def test_an_escalation_names_what_is_missing() -> None:
    """The error lists the user, its groups, and the missing rules, joined and sorted."""
    user = User(name="alice", groups=("devs", "system:authenticated"))
    owned = [PolicyRule(verbs=("get",), groups=("",), resources=("configmaps",))]
    expected = [
        PolicyRule(verbs=("list", "get"), groups=("",), resources=("secrets",)),
        PolicyRule(verbs=("get", "delete"), groups=("",), resources=("configmaps",)),
        PolicyRule(verbs=("get",), groups=("",), resources=("pods",), names=("p",)),
    ]
    text = escalation(user, owned, expected, ["oops"])
    assert text == (
        'user "alice" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently'
        ' held:\n{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}'
        '\n{APIGroups:[""], Resources:["pods"], ResourceNames:["p"], Verbs:["get"]}'
        '\n{APIGroups:[""], Resources:["secrets"], Verbs:["list" "get"]}; resolution errors: [oops]'
    )
    assert escalation(user, owned, owned) is None


# ------------------------------------------------------------------ the index
subjects = st.one_of(
    st.builds(Subject, kind=st.just("User"), name=st.sampled_from(["u", "v"])),
    st.builds(Subject, kind=st.just("Group"), name=st.sampled_from(["g", "h"])),
    st.builds(Subject, kind=st.just("ServiceAccount"), name=st.just("s"), namespace=st.sampled_from(["", "n", "m"])),
)
places = st.sampled_from(["", "n", "m"])
bindings = st.builds(
    RbacBinding,
    name=st.sampled_from(["one", "two"]),
    namespace=places,
    role_kind=st.sampled_from(["Role", "ClusterRole"]),
    role=st.sampled_from(["r", "s"]),
    subjects=st.lists(subjects, max_size=3).map(tuple),
).map(lambda b: b if b.namespace else replace(b, role_kind="ClusterRole"))
roles = st.tuples(st.just("role"), places, st.sampled_from(["r", "s"]), st.lists(rules, max_size=2).map(tuple))
steps = st.one_of(
    roles,
    st.tuples(st.just("bind"), bindings),
    st.tuples(st.just("drop role"), places, st.sampled_from(["r", "s"])),
    st.tuples(st.just("unbind"), places, st.sampled_from(["one", "two"])),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.one_of(steps, attributes.map(lambda a: ("ask", a))), max_size=25))
def test_the_index_decides_like_the_naive_evaluator(history: list[tuple[object, ...]]) -> None:
    """After any writes, the index decides like the naive evaluator, and gives a reason for an allow."""
    policy = RbacPolicy()
    world: World = ({}, {})
    for step in history:
        match step:
            case ("role", str(place), str(name), tuple(found)):
                policy.put_role(place, name, found)
                world[0][place, name] = found
            case ("bind", RbacBinding() as binding):
                policy.put_binding(binding)
                world[1][binding.namespace, binding.name] = binding
            case ("drop role", str(place), str(name)):
                policy.drop_role(place, name)
                world[0].pop((place, name), None)
            case ("unbind", str(place), str(name)):
                policy.drop_binding(place, name)
                world[1].pop((place, name), None)
            case ("ask", AuthorizerAttributes() as attributes):
                decision = policy.decide(attributes)
                assert decision.allowed == plainly_decides(world, attributes)
                assert not decision.allowed or decision.reason.startswith("RBAC: allowed by ")


def test_reasons_name_the_binding_and_the_missing_role() -> None:
    """An allow names binding, role and subject; a denial lists the roles that could not be read, each once."""
    policy = RbacPolicy()
    user = User(name="u", groups=("g",))
    ask = AuthorizerAttributes(user=user, verb="get", resource="pods", namespace="n")
    group = Subject(kind="Group", name="g")
    policy.put_binding(RbacBinding(name="b", namespace="n", role_kind="ClusterRole", role="gone", subjects=(group,)))
    policy.put_binding(RbacBinding(name="c", namespace="n", role_kind="Role", role="r", subjects=(group,)))
    gone = 'clusterrole.rbac.authorization.k8s.io "gone" not found'
    assert policy.decide(ask).reason == f'RBAC: [{gone}, role.rbac.authorization.k8s.io "r" not found]'
    policy.put_role("n", "r", [PolicyRule(verbs=("get",), groups=("",), resources=("pods",))])
    assert policy.decide(ask).reason == 'RBAC: allowed by RoleBinding "c/n" of Role "r" to Group "g"'
    assert policy.decide(msgspec.structs.replace(ask, verb="list")).reason == f"RBAC: {gone}"
    assert policy.rules_for(user, "n")[1] == [gone]
