"""Who gets in, and what they may do: the authenticators and the authorizer of one control plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opsdk.aio.clock import Clock
from opsdk.apiserver.auth.authentication import Authenticator, BearerAuthenticator, TokenAuthenticator, TokenChecker
from opsdk.apiserver.auth.authorization import Authorizer, Masters, UnionAuthorizer
from opsdk.apiserver.auth.jwt import SigningKey
from opsdk.apiserver.auth.rbac_authorizer import RbacAuthorizer
from opsdk.apiserver.auth.service_accounts import ISSUER, ServiceAccountTokens
from opsdk.apiserver.storage.ports import KeyNotFoundError, Storage, Tree

AUDIENCES = (ISSUER,)
"""The names by which tokens mean this server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What decides on users.

    Attributes:
        authenticators: tried first, in order; bearer tokens come after them.
        tokens: fixed bearer tokens.
        checkers: other kinds of bearer tokens, beside those of service accounts.
        authorizer: asked after masters were let pass; None goes by roles and bindings.
        anonymous: let requests without credentials through to the authorizer.
        key_file: where the key that signs tokens is kept; None keeps it in this process.
    """

    authenticators: Sequence[Authenticator] = ()
    tokens: TokenAuthenticator | None = None
    checkers: Sequence[TokenChecker] = ()
    authorizer: Authorizer | None = None
    anonymous: bool = True
    key_file: Path | None = None


class Gatekeeper:
    """`Access`, put to work on one storage.

    Attributes:
        bearer: what takes bearer tokens.
        rbac: knows roles and bindings, whoever decides.
        key: signs tokens of service accounts.
    """

    def __init__(self, access: Access, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self.anonymous = access.anonymous
        self.key = SigningKey(access.key_file)
        accounts = ServiceAccountTokens(self.key, self.find, clock=clock)
        fixed = (access.tokens,) if access.tokens is not None else ()
        self.bearer = BearerAuthenticator((*fixed, accounts, *access.checkers), audiences=AUDIENCES)
        self.authenticators: Sequence[Authenticator] = (*access.authenticators, self.bearer)
        self.rbac = RbacAuthorizer(storage)
        self.authorizer: Authorizer = access.authorizer or UnionAuthorizer((Masters(), self.rbac))

    def find(self, resource: str, namespace: str, name: str) -> Tree | None:
        """An object of the core group as it is now; None where there is none."""
        parts = ("core", resource, namespace, name) if namespace else ("core", resource, name)
        try:
            return self._storage.get("/".join(parts))
        except KeyNotFoundError:
            return None
