"""Authenticators: from a request's credentials to a user.

An authenticator returns a user. It returns None when the request has no credentials of its type, and raises
`UnauthorizedError` when the credentials are invalid.

Upstream: k8s.io/apiserver/pkg/authentication/authenticator/interfaces.go (v1.36).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from opsdk.apiserver.auth.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from opsdk.errors import ConfigError, UnauthorizedError
from opsdk.http.server.request import HttpRequest
from opsdk.structured_merge.identity_cache import IdentityCache

_NOT_KNOWN = "invalid bearer token"


class Authenticator(Protocol):
    """An authenticator of requests."""

    async def authenticate(self, request: HttpRequest) -> User | None:
        """Return the user; None if the request has no credentials of this type."""
        ...


class Authenticated(msgspec.Struct, frozen=True):
    """A token's user, and the requested audiences that the token is valid for."""

    user: User
    audiences: tuple[str, ...] = ()


class TokenChecker(Protocol):
    """One kind of bearer token."""

    async def check(self, token: str, audiences: Sequence[str]) -> Authenticated | None:
        """Return the user, and those of `audiences` that the token is valid for; None for another type of token.

        Raises:
            UnauthorizedError: the token is invalid; TokenReview reports the message.
        """
        ...


class TokenAuthenticator:
    """Static bearer tokens; they are valid for the server's own `audiences`."""

    def __init__(self, tokens: Mapping[str, User], *, audiences: Sequence[str] = ()) -> None:
        self._tokens = dict(tokens)
        self._audiences = tuple(audiences)

    def __repr__(self) -> str:
        return f"<TokenAuthenticator of {len(self._tokens)} tokens>"

    def add(self, token: str, user: User) -> None:
        """Add a token."""
        self._tokens[token] = user

    def users(self) -> dict[str, User]:
        """Return the user of each token."""
        return dict(self._tokens)

    async def check(self, token: str, audiences: Sequence[str]) -> Authenticated | None:
        user = self._tokens.get(token)
        if user is None:
            return None
        both = tuple(a for a in self._audiences if a in audiences)
        return Authenticated(user, both) if both or not self._audiences else None


class BearerAuthenticator:
    """Bearer tokens, checked by several token checkers; `audiences` are the server's own."""

    def __init__(self, checkers: Sequence[TokenChecker], *, audiences: Sequence[str] = ()) -> None:
        self._checkers = tuple(checkers)
        self.audiences = tuple(audiences)

    async def authenticate(self, request: HttpRequest) -> User | None:
        """See `Authenticator`; a token that no checker accepts is invalid."""
        scheme, *rest = request.header("authorization").strip().split(" ", 2)
        if scheme.lower() != "bearer" or not rest or not rest[0]:
            return None
        return (await self.check(rest[0], self.audiences)).user

    async def check(self, token: str, audiences: Sequence[str]) -> Authenticated:
        """Return the user of a token; raise `UnauthorizedError` for an invalid one."""
        reasons = [_NOT_KNOWN]
        for checker in self._checkers:
            try:
                user = await checker.check(token, audiences)
            except UnauthorizedError as error:
                reasons.append(error.message)
                continue
            if user is not None:
                return Authenticated(authenticated(user.user), user.audiences)
        raise UnauthorizedError(reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]")


def authenticated(user: User) -> User:
    """Return the user with the group ``system:authenticated``."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return _AUTHENTICATED.get_or_compute(user, _with_group)


def _with_group(user: User) -> User:
    return replace(user, groups=(*user.groups, AUTHENTICATED))


_AUTHENTICATED: Final = IdentityCache[User](limit=256)
"""Caches the extended user of fixed tokens and certificates, which repeat with every request."""


class UnionAuthenticator:
    """Returns the user of the first authenticator that accepts the credentials.

    A request without credentials is anonymous if `anonymous`. Rejected credentials are an error in any case.
    """

    def __init__(self, authenticators: Sequence[Authenticator], *, anonymous: bool = True) -> None:
        self._authenticators = tuple(authenticators)
        self._anonymous = anonymous

    async def authenticate(self, request: HttpRequest) -> User:
        """Return the user; raise `UnauthorizedError` for credentials that no authenticator accepts."""
        refused = not self._anonymous
        for authenticator in self._authenticators:
            try:
                user = await authenticator.authenticate(request)
            except UnauthorizedError:
                # Another authenticator may still accept. The reason is not sent to the client.
                refused = True
                continue
            if user is not None:
                return authenticated(user)
        if refused:
            raise UnauthorizedError("Unauthorized")
        return ANONYMOUS


def read_token_file(path: Path) -> dict[str, User]:
    """Read users by token from lines ``token,user,uid,"group1,group2"``. Raises `ConfigError`."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read the token file {path}: {error}") from error
    return parse_tokens(lines, source=str(path))


def parse_tokens(lines: Iterable[str], *, source: str = "tokens") -> dict[str, User]:
    """See `read_token_file`."""
    users: dict[str, User] = {}
    for number, row in enumerate(csv.reader(lines, skipinitialspace=True), start=1):
        if not row:
            continue
        if len(row) < 3 or not row[0] or not row[1]:
            raise ConfigError(f"{source} line {number}: expected token,user,uid[,groups]")
        groups = tuple(g.strip() for g in row[3].split(",") if g.strip()) if len(row) > 3 else ()
        users[row[0]] = User(name=row[1], uid=row[2], groups=groups)
    return users
