"""Authenticators: from a request's credentials to a user.

An authenticator returns a user, or None when the request carries nothing it understands, or raises
`UnauthorizedError` when it carries something that is wrong.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from opsdk.apiserver.auth.user import ANONYMOUS, AUTHENTICATED, User
from opsdk.errors import ConfigError, UnauthorizedError
from opsdk.web.request import Request


class Authenticator(Protocol):
    """One way to prove who one is."""

    async def authenticate(self, request: Request) -> User | None:
        """The user, or None where this way was not taken."""
        ...


class TokenAuthenticator:
    """Fixed bearer tokens."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = dict(tokens)

    def __repr__(self) -> str:
        return f"<TokenAuthenticator of {len(self._tokens)} tokens>"

    def add(self, token: str, user: User) -> None:
        """Accept one more token."""
        self._tokens[token] = user

    async def authenticate(self, request: Request) -> User | None:
        """By ``Authorization: Bearer``; an unknown token is left to the others."""
        scheme, _, token = request.header("authorization").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        return self._tokens.get(token.strip())


class UnionAuthenticator:
    """The first authenticator that knows the user decides; credentials that none knows are wrong.

    Without credentials the user is anonymous.
    """

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = list(authenticators)

    async def authenticate(self, request: Request) -> User:
        """The user; `UnauthorizedError` for credentials that nobody accepts."""
        for authenticator in self._authenticators:
            user = await authenticator.authenticate(request)
            if user is not None:
                return user if AUTHENTICATED in user.groups else replace(user, groups=(*user.groups, AUTHENTICATED))
        if request.header("authorization"):
            raise UnauthorizedError("Unauthorized")
        return ANONYMOUS


def read_token_file(path: Path) -> dict[str, User]:
    """Users by token from lines ``token,user,uid,"group1,group2"``; bad lines are a `ConfigError`."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read the token file {path}: {error}") from error
    return parse_tokens(lines, where=str(path))


def parse_tokens(lines: Iterable[str], *, where: str = "tokens") -> dict[str, User]:
    """See `read_token_file`."""
    users: dict[str, User] = {}
    for number, row in enumerate(csv.reader(lines, skipinitialspace=True), start=1):
        if not row:
            continue
        if len(row) < 3 or not row[0] or not row[1]:
            raise ConfigError(f"{where} line {number}: expected token,user,uid[,groups]")
        groups = tuple(g.strip() for g in row[3].split(",") if g.strip()) if len(row) > 3 else ()
        users[row[0]] = User(name=row[1], uid=row[2], groups=groups)
    return users
