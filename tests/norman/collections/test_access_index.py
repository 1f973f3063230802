"""Incremental access sets against recomputed ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.auth.rbac import PolicyRule, RbacBinding, Subject
from opsdk.apiserver.auth.user import User
from opsdk.norman.collections.access_index import AccessIndex, touches, user_key

USERS = (
    User(name="ann", groups=("dev", "ops")),
    User(name="bob", groups=("dev",)),
    User(name="system:serviceaccount:n:s"),
)
places = st.sampled_from(("", "n", "m"))
names = st.sampled_from(("r", "s"))
rules = st.lists(
    st.builds(
        PolicyRule,
        verbs=st.sampled_from([("get",), ("list",), ("*",)]),
        groups=st.just(("",)),
        resources=st.sampled_from([("pods",), ("*",)]),
        names=st.sampled_from([(), ("a",)]),
    ),
    max_size=2,
)
subjects = st.lists(
    st.sampled_from(
        [
            Subject(kind="User", name="ann"),
            Subject(kind="User", name="bob"),
            Subject(kind="Group", name="dev"),
            Subject(kind="Group", name="ops"),
            Subject(kind="ServiceAccount", name="s", namespace="n"),
        ]
    ),
    unique=True,
    max_size=2,
).map(tuple)
role_events = st.tuples(st.just("role"), places, names, st.one_of(st.none(), rules))
binding_events = st.tuples(
    st.just("binding"),
    places,
    names,
    st.one_of(st.none(), st.tuples(st.sampled_from(("Role", "ClusterRole", "Other")), names, subjects)),
)


def apply(index: AccessIndex, event: tuple[str, str, str, object]) -> frozenset[tuple[str, str]]:
    """One event of a role or of a binding."""
    what, namespace, name, content = event
    if what == "role":
        return index.put_role(namespace, name, content)  # type: ignore[arg-type]
    binding = None
    if content is not None:
        kind, role, bound = content  # type: ignore[misc]
        kind = kind if namespace or kind == "Other" else "ClusterRole"
        binding = RbacBinding(name=name, namespace=namespace, role_kind=kind, role=role, subjects=bound)
    return index.put_binding(namespace, name, binding)


@given(st.lists(st.one_of(role_events, binding_events), max_size=25))
def test_any_history_gives_the_sets_that_its_end_gives(history: list[tuple[str, str, str, object]]) -> None:
    """After each event, every access set equals that of a new index; sets of other users stay the same objects."""
    index = AccessIndex()
    last: dict[tuple[str, str, str], tuple[str, str, str, object]] = {}
    for event in history:
        before = [index.access_for(user) for user in USERS]
        touched = apply(index, event)
        last[event[:3]] = event
        anew = AccessIndex()
        for final in last.values():
            apply(anew, final)
        for user, old in zip(USERS, before, strict=True):
            assert index.access_for(user).id == anew.access_for(user).id
            if not touches(touched, user_key(user)):
                assert index.access_for(user) is old


def test_a_change_keeps_the_sets_of_users_that_it_does_not_name() -> None:
    """A binding of ann drops ann's set and keeps bob's."""
    index = AccessIndex()
    index.put_role("", "r", [PolicyRule(verbs=("get",), groups=("",), resources=("pods",))])
    for user in USERS[:2]:
        index.access_for(user)
    index.put_binding(
        "", "b", RbacBinding(name="b", role_kind="ClusterRole", role="r", subjects=(Subject(kind="User", name="ann"),))
    )
    assert index.cached_users == {user_key(USERS[1])}
    assert index.access_for(USERS[0]).grants("get", "", "pods")
    assert "1 roles" in repr(index)


def test_the_least_recently_used_set_is_dropped_first() -> None:
    """The number of cached sets is bounded, and the least recently used one is dropped first."""
    index = AccessIndex(max_users=2)
    for user in (USERS[0], USERS[1], USERS[0], USERS[2]):
        index.access_for(user)
    assert index.cached_users == {user_key(USERS[0]), user_key(USERS[2])}
