"""Tokens of service accounts: valid while signed correctly and while the bound objects exist."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jwt import get_unverified_header
from jwt.utils import base64url_encode

from opsdk.aio.clock import utc_now
from opsdk.apiserver.auth.jwt import SigningKey, unverified
from opsdk.apiserver.auth.service_accounts import (
    ISSUER,
    LEEWAY,
    BoundObject,
    ServiceAccountTokens,
    check_times,
    claims_of,
    kept_claims,
    matching_audiences,
    split_username,
    user_of,
)
from opsdk.errors import ConfigError, UnauthorizedError
from opsdk.structured_merge.value import JsonObject

KEY = SigningKey()
ACCOUNT = {"metadata": {"name": "robot", "namespace": "ns", "uid": "u1"}}
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "p1"}}
NODE = {"metadata": {"name": "n", "uid": "n1"}}
SECRET = {"metadata": {"name": "s", "namespace": "ns", "uid": "s1"}}


def claims(bound: BoundObject = BoundObject(), *, seconds: int = 600, now: int = 1000) -> JsonObject:  # noqa: B008 - frozen
    """Return the claims of a token of the account."""
    return claims_of(ACCOUNT, bound, audiences=[ISSUER], now=now, seconds=seconds, token_id="j")


class World:
    """Objects that tokens speak of."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], JsonObject] = {
            ("serviceaccounts", "ns", "robot"): ACCOUNT,
            ("pods", "ns", "p"): POD,
            ("secrets", "ns", "s"): SECRET,
            ("nodes", "", "n"): NODE,
        }

    def find(self, resource: str, namespace: str, name: str) -> JsonObject | None:
        return self.objects.get((resource, namespace, name))


@given(st.dictionaries(st.text(), st.text()), st.integers(0, 2), st.integers(1, 3))
def test_base64_parts_are_canonical(content: dict[str, str], part: int, padding: int) -> None:
    """A token with padding or unused bits in its base64 is invalid."""
    token = KEY.sign(content)
    assert KEY.verify(token) == unverified(token) == content
    parts = token.split(".")
    padded = ".".join(p + "=" * padding if n == part else p for n, p in enumerate(parts))
    assert unverified(padded) is None
    others = [padded]
    if len(parts[part]) % 4:
        last = chr(ord(parts[part][-1]) + 1)
        others.append(".".join(p[:-1] + last if n == part else p for n, p in enumerate(parts)))
    for changed in others:
        with pytest.raises(UnauthorizedError):
            KEY.verify(changed)


def test_a_token_says_what_was_signed() -> None:
    """Claims survive a round trip; header and claims can be read without the key."""
    token = KEY.sign(claims())
    assert KEY.verify(token) == claims()
    assert unverified(token) == claims()
    assert get_unverified_header(token) == {"alg": "RS256", "kid": KEY.key_id}
    assert [key["kid"] for key in KEY.public()] == [KEY.key_id]


@given(st.data())
def test_every_tampering_is_refused(data: st.DataObject) -> None:
    """A token with any changed character, part or algorithm is invalid."""
    token = KEY.sign(claims())
    position = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from("aA0-_.xé"))
    changed = token[:position] + other + token[position + 1 :]
    if changed != token:
        with pytest.raises(UnauthorizedError):
            KEY.verify(changed)


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS512", None])
def test_other_algorithms_are_refused(algorithm: str | None) -> None:
    """A token cannot choose how it is checked."""
    head, body, signature = KEY.sign(claims()).split(".")
    head = base64url_encode(json.dumps({"alg": algorithm, "kid": KEY.key_id}).encode()).decode()
    for last in (signature, ""):
        with pytest.raises(UnauthorizedError):
            KEY.verify(f"{head}.{body}.{last}")


@given(st.text())
def test_parsing_a_token_never_raises(text: str) -> None:
    """Reading any text as a token raises no error."""
    unverified(text)
    unverified(f"{text}.{text}.{text}")


def test_a_server_without_a_key_makes_none_to_refuse(tmp_path: Path) -> None:
    """Checking a foreign token creates no key."""
    fresh = SigningKey(tmp_path / "key")
    with pytest.raises(UnauthorizedError):
        fresh.verify(KEY.sign(claims()))
    assert not (tmp_path / "key").exists()


def test_a_key_is_kept_in_its_file(tmp_path: Path) -> None:
    """Tokens stay valid after a restart; the key file is private; an invalid file is an error with advice."""
    path = tmp_path / "deep" / "key"
    token = SigningKey(path).sign(claims())
    assert SigningKey(path).verify(token) == claims()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("rubbish")
    with pytest.raises(ConfigError, match="remove it"):
        SigningKey(path).verify(token)


@given(st.integers(600, 100_000), st.integers(-200_000, 200_000))
def test_tokens_have_their_time(seconds: int, later: int) -> None:
    """A token is valid from its issue to its expiry, within the leeway."""
    issued = 1_000_000
    good = -LEEWAY <= later <= seconds + LEEWAY
    if good:
        check_times(claims(seconds=seconds, now=issued), issued + later)
    else:
        with pytest.raises(UnauthorizedError):
            check_times(claims(seconds=seconds, now=issued), issued + later)


def test_claims_of_wrong_types_are_refused() -> None:
    """A signed token with claims of wrong types is invalid."""
    for wrong in ("soon", None, True, [1]):
        with pytest.raises(UnauthorizedError, match="could not be validated"):
            check_times({**claims(), "exp": wrong}, 1000)


def test_a_token_is_for_its_audiences() -> None:
    """A token is valid for its audiences; for others the error lists both."""
    assert matching_audiences(claims(), ["x", ISSUER]) == (ISSUER,)
    assert matching_audiences({}, [ISSUER]) == (ISSUER,)
    with pytest.raises(UnauthorizedError) as caught:
        matching_audiences(claims(), ["x", "y"])
    expected = f'token audiences ["{ISSUER}"] is invalid for the target audiences ["x" "y"]'
    assert caught.value.message == expected


def test_the_user_is_the_account_with_its_groups() -> None:
    """The user has name, uid and groups of the account, and the bound objects in extra."""
    user = user_of(claims(BoundObject(pod=POD, node=NODE)), World().find)
    assert (user.name, user.uid) == ("system:serviceaccount:ns:robot", "u1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns")
    prefix = "authentication.kubernetes.io/"
    assert user.extra == {
        f"{prefix}credential-id": ("JTI=j",),
        f"{prefix}node-name": ("n",),
        f"{prefix}node-uid": ("n1",),
        f"{prefix}pod-name": ("p",),
        f"{prefix}pod-uid": ("p1",),
    }


@pytest.mark.parametrize(
    ("bound", "key"),
    [
        (BoundObject(), ("serviceaccounts", "ns", "robot")),
        (BoundObject(pod=POD), ("pods", "ns", "p")),
        (BoundObject(secret=SECRET), ("secrets", "ns", "s")),
        (BoundObject(node=NODE), ("nodes", "", "n")),
    ],
)
def test_a_token_ends_with_what_it_is_bound_to(bound: BoundObject, key: tuple[str, str, str]) -> None:
    """A token is invalid if its bound object is gone or replaced; the node of a pod does not count."""
    world = World()
    user_of(claims(bound), world.find)
    before = world.objects[key]
    world.objects[key] = {"metadata": {**before["metadata"], "uid": "another"}}
    with pytest.raises(UnauthorizedError, match="does not match"):
        user_of(claims(bound), world.find)
    del world.objects[key]
    with pytest.raises(UnauthorizedError):
        user_of(claims(bound), world.find)


def test_a_pods_node_may_go() -> None:
    """A token of a pod outlives the node that the pod ran on."""
    world = World()
    del world.objects["nodes", "", "n"]
    assert user_of(claims(BoundObject(pod=POD, node=NODE)), world.find)


async def test_foreign_tokens_are_skipped() -> None:
    """A token of another issuer and an opaque token are not service account tokens."""
    checker = ServiceAccountTokens(KEY, World().find)
    assert await checker.check("opaque", [ISSUER]) is None
    assert await checker.check(KEY.sign({**claims(), "iss": "https://elsewhere"}), [ISSUER]) is None
    now = int(utc_now().timestamp())
    user = await checker.check(KEY.sign(claims(now=now)), [ISSUER, "x"])
    assert user is not None
    assert user.audiences == (ISSUER,)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("system:serviceaccount:a:b", ("a", "b")),
        ("system:serviceaccount:a", None),
        ("system:serviceaccount:a:b:c", None),
        ("system:serviceaccount::b", None),
        ("alice", None),
    ],
)
def test_service_accounts_are_told_by_their_names(name: str, wanted: tuple[str, str] | None) -> None:
    """A service account name has exactly a namespace and a name."""
    assert split_username(name) == wanted


# ------------------------------------------------------------------ tokens that are kept in secrets
def kept() -> tuple[str, World]:
    """A token in a secret of the account."""
    world = World()
    token = KEY.sign(kept_claims(ACCOUNT, SECRET))
    world.objects["secrets", "ns", "s"] = {**SECRET, "data": {"token": base64.b64encode(token.encode()).decode()}}
    return token, world


async def test_a_secret_token_is_valid_while_its_secret_has_it() -> None:
    """A token of a Secret has no expiry; it is valid while its Secret and its account exist."""
    token, world = kept()
    checker = ServiceAccountTokens(KEY, world.find)
    user = await checker.check(token, [ISSUER])
    assert user is not None
    assert (user.user.name, user.user.uid) == ("system:serviceaccount:ns:robot", "u1")
    with pytest.raises(UnauthorizedError, match="token audiences"):
        await checker.check(token, ["elsewhere"])
    for key, value in (
        (("secrets", "ns", "s"), {**SECRET, "data": {"token": "b3RoZXI="}}),
        (("secrets", "ns", "s"), None),
        (("serviceaccounts", "ns", "robot"), None),
        (("serviceaccounts", "ns", "robot"), {"metadata": {**ACCOUNT["metadata"], "uid": "another"}}),
    ):
        _, world = kept()
        world.objects.pop(key)
        if value is not None:
            world.objects[key] = value
        with pytest.raises(UnauthorizedError):
            await ServiceAccountTokens(KEY, world.find).check(token, [ISSUER])


async def test_a_kept_token_speaks_of_one_account() -> None:
    """Subject and account of a Secret's token must match, even with a valid signature."""
    _, world = kept()
    token = KEY.sign({**kept_claims(ACCOUNT, SECRET), "sub": "system:serviceaccount:ns:other"})
    with pytest.raises(UnauthorizedError, match="sub claim is invalid"):
        await ServiceAccountTokens(KEY, world.find).check(token, [ISSUER])
