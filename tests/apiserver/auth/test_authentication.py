"""Unions of authenticators and of authorizers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from opsdk.apiserver.auth.authentication import (
    Authenticated,
    BearerAuthenticator,
    TokenAuthenticator,
    UnionAuthenticator,
)
from opsdk.apiserver.auth.authorization import (
    AuthorizerAttributes,
    Decision,
    PrivilegedGroup,
    ResolvedRules,
    UnionAuthorizer,
)
from opsdk.apiserver.auth.user import ANONYMOUS, User
from opsdk.errors import UnauthorizedError
from opsdk.http.asgi_types import Message
from opsdk.http.server.request import HttpRequest, Query

ALICE, BOB = User(name="alice"), User(name="bob", groups=("system:masters",))


async def nothing() -> Message:
    """No body."""
    return {"type": "http.disconnect"}


def request(authorization: str = "") -> HttpRequest:
    """A request with credentials."""
    headers = {"authorization": authorization} if authorization else {}
    return HttpRequest("GET", "/", Query(), headers, nothing)


class Picky:
    """Knows one kind of token, and refuses it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    async def check(self, token: str, audiences: Sequence[str]) -> Authenticated | None:
        if token.startswith(self.kind):
            raise UnauthorizedError(f"{self.kind} is not good")
        return None


BEARER = BearerAuthenticator(
    [Picky("x"), TokenAuthenticator({"t": ALICE, "xt": BOB}, audiences=["a"])], audiences=["a"]
)


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ("", ANONYMOUS.name),
        ("Basic YTpi", ANONYMOUS.name),
        ("Bearer", ANONYMOUS.name),
        ("Bearer ", ANONYMOUS.name),
        ("Bearer t", "alice"),
        ("bEARER t and more", "alice"),
        ("Bearer xt", "bob"),
        ("Bearer u", ""),
        ("Bearer x", ""),
    ],
)
async def test_who_it_is(sent: str, wanted: str) -> None:
    """A known token authenticates its user; an unknown one is an error; other requests have no credential."""
    union = UnionAuthenticator([BEARER])
    if wanted:
        user = await union.authenticate(request(sent))
        assert user.name == wanted
        assert ("system:authenticated" in user.groups) == (user is not ANONYMOUS)
    else:
        with pytest.raises(UnauthorizedError, match="Unauthorized"):
            await union.authenticate(request(sent))


async def test_one_successful_authenticator_is_enough() -> None:
    """A request is authenticated if one authenticator succeeds, even if another one fails."""

    class Wrong:
        async def authenticate(self, request: HttpRequest) -> User | None:
            raise UnauthorizedError("no")

    union = UnionAuthenticator([Wrong(), BEARER])
    assert (await union.authenticate(request("Bearer t"))).name == "alice"
    with pytest.raises(UnauthorizedError):
        await union.authenticate(request())


async def test_reasons_are_reported_together() -> None:
    """Each reason is reported once; a token for other audiences is unknown."""
    for token, audiences, text in (
        ("u", ["a"], "invalid bearer token"),
        ("x", ["a"], "[invalid bearer token, x is not good]"),
        ("t", ["other"], "invalid bearer token"),
    ):
        with pytest.raises(UnauthorizedError) as caught:
            await BEARER.check(token, audiences)
        assert caught.value.message == text
    assert (await BEARER.check("t", ["other", "a"])).audiences == ("a",)


class Says:
    """Always decides the same."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        return self.decision

    async def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        return ResolvedRules(rules=[{"verbs": [namespace]}], error="partly")


async def test_the_first_allow_or_deny_decides() -> None:
    """The first allow or explicit deny decides; without either, all reasons are reported."""
    no, firm = Decision(allowed=False, reason="one", error="e"), Decision(allowed=False, denied=True)
    yes = Decision(allowed=True)
    ask = AuthorizerAttributes(user=ALICE, verb="get")
    assert (await UnionAuthorizer([Says(no), Says(yes), Says(firm)]).authorize(ask)).allowed
    assert await UnionAuthorizer([Says(no), Says(firm), Says(yes)]).authorize(ask) == firm
    nobody = await UnionAuthorizer([Says(no), Says(Decision(allowed=False, reason="two"))]).authorize(ask)
    assert nobody == Decision(allowed=False, reason="one\ntwo", error="e")
    union = UnionAuthorizer([PrivilegedGroup(), Says(firm)])
    assert (await union.authorize(AuthorizerAttributes(user=BOB, verb="get"))).allowed
    assert await union.rules_for(BOB, "n") == ResolvedRules(rules=[{"verbs": ["n"]}], error="partly")
