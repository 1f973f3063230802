"""The authorizer that follows a storage."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.auth.rbac_authorizer import RbacAuthorizer
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import KeyNotFoundError
from opsdk.structured_merge.value import JsonObject

GROUP = "rbac.authorization.k8s.io"
PLACES = ("", "n", "m")
ASKED = [
    AuthorizerAttributes(user=User(name="u", groups=("g",)), verb=verb, resource="pods", namespace=place)
    for verb in ("get", "list")
    for place in PLACES
]


def role(place: str, name: str, verbs: list[str]) -> tuple[str, JsonObject]:
    """Key and object of a role; cluster roles have no place."""
    prefix = f"{GROUP}/roles/{place}/" if place else f"{GROUP}/clusterroles/"
    rules = [{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}] if verbs else None
    return f"{prefix}{name}", {"metadata": {"name": name, "namespace": place}, "rules": rules}


def binding(place: str, name: str, kind: str, to: str, who: str) -> tuple[str, JsonObject]:
    """Key and object of a binding."""
    prefix = f"{GROUP}/rolebindings/{place}/" if place else f"{GROUP}/clusterrolebindings/"
    subjects = [{"kind": "User" if who == "u" else "Group", "name": who}]
    meta = {"name": name, "namespace": place}
    return f"{prefix}{name}", {"metadata": meta, "roleRef": {"kind": kind, "name": to}, "subjects": subjects}


places, names = st.sampled_from(PLACES), st.sampled_from(["a", "b"])
objects = st.one_of(
    st.builds(role, places, names, st.lists(st.sampled_from(["get", "list"]), max_size=2)),
    st.builds(
        binding, places, names, st.sampled_from(["Role", "ClusterRole"]), names, st.sampled_from(["u", "g", "x"])
    ),
)
writes = st.lists(st.tuples(objects, st.booleans()), max_size=25)


@given(writes)
def test_a_followed_policy_decides_like_a_fresh_one(history: list[tuple[tuple[str, JsonObject], bool]]) -> None:
    """After any writes, the authorizer decides like one that reads the storage for the first time."""
    storage = MemoryStorage()
    follower = RbacAuthorizer(storage)
    for (key, obj), gone in history:
        follower.policy.decide(ASKED[0])
        with suppress(KeyNotFoundError):
            storage.delete_now(key)
        if not gone:
            storage.create_now(key, obj)
        fresh = RbacAuthorizer(storage)
        for attributes in ASKED:
            assert follower.policy.decide(attributes) == fresh.policy.decide(attributes)
            place = attributes.namespace
            assert follower.policy.rules_for(attributes.user, place) == fresh.policy.rules_for(attributes.user, place)


async def test_roles_are_read_at_the_first_request() -> None:
    """An authorizer reads no roles before its first request."""

    class Unread(MemoryStorage):
        def list(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("nobody asked yet")

    assert repr(RbacAuthorizer(Unread())) == "<RbacAuthorizer by roles yet to be read>"
