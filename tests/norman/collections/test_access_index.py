"""Incremental access sets against recomputed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.auth.rbac import PolicyRule, RbacBinding, Subject, keys_of
from opsdk.apiserver.auth.user import User
from opsdk.norman.collections.access_index import AccessIndex

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


Event = tuple[str, str, str, Any]


def binding_of(event: Event) -> RbacBinding | None:
    """The binding of an event; None for a role, and for a binding that is gone."""
    what, namespace, name, content = event
    if what == "role" or content is None:
        return None
    kind, role, bound = content
    kind = kind if namespace or kind == "Other" else "ClusterRole"
    return RbacBinding(name=name, namespace=namespace, role_kind=kind, role=role, subjects=bound)


def apply(index: AccessIndex, event: Event) -> None:
    """One event of a role or of a binding."""
    what, namespace, name, content = event
    if what == "role":
        index.put_role(namespace, name, content)
    else:
        index.put_binding(namespace, name, binding_of(event))


def named_by(event: Event, last: Sequence[Event]) -> set[tuple[str, str]]:
    """The subjects of the bindings that an event changes, or whose role it changes."""
    changed = [each for each in (*last, event) if each[:3] == event[:3]]
    of_role = [each for each in last if (b := binding_of(each)) is not None and b.role_key == event[1:3]]
    bindings = [binding_of(each) for each in (changed if event[0] == "binding" else of_role)]
    return {key for b in bindings if b for subject in b.subjects if (key := subject.key(b.namespace)) is not None}


@given(st.lists(st.one_of(role_events, binding_events), max_size=25))
def test_any_history_gives_the_sets_that_its_end_gives(history: list[Event]) -> None:
    """After each event, every access set equals that of a new index; sets of other users stay the same objects."""
    index = AccessIndex()
    last: dict[tuple[str, str, str], Event] = {}
    for event in history:
        before = [index.access_for(user) for user in USERS]
        apply(index, event)
        subjects_named = named_by(event, [*last.values()])
        last[event[:3]] = event
        anew = AccessIndex()
        for final in last.values():
            apply(anew, final)
        for user, old in zip(USERS, before, strict=True):
            assert index.access_for(user) == anew.access_for(user)
            if subjects_named.isdisjoint(keys_of(user)):
                assert index.access_for(user) is old


def test_a_change_keeps_the_sets_of_users_that_it_does_not_name() -> None:
    """A binding of ann drops ann's set and keeps bob's."""
    index = AccessIndex()
    index.put_role("", "r", [PolicyRule(verbs=("get",), groups=("",), resources=("pods",))])
    ann, bob = (index.access_for(user) for user in USERS[:2])
    index.put_binding(
        "", "b", RbacBinding(name="b", role_kind="ClusterRole", role="r", subjects=(Subject(kind="User", name="ann"),))
    )
    assert index.access_for(USERS[1]) is bob
    assert index.access_for(USERS[0]) is not ann
    assert index.access_for(USERS[0]).grants("get", "", "pods")
    assert "1 roles" in repr(index)


def test_the_least_recently_used_set_is_dropped_first() -> None:
    """The number of cached sets is bounded, and the least recently used one is dropped first."""
    index = AccessIndex(max_users=2)
    sets = [index.access_for(user) for user in (USERS[0], USERS[1], USERS[0], USERS[2])]
    assert index.access_for(USERS[0]) is sets[0]
    assert index.access_for(USERS[2]) is sets[3]
    assert index.access_for(USERS[1]) is not sets[1]
