"""The authenticators and the authorizer of a control plane.

Upstream: pkg/kubeapiserver/authenticator/config.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from opsdk.apiserver.auth.authentication import Authenticator, BearerAuthenticator, TokenAuthenticator
from opsdk.apiserver.auth.authorization import Authorizer, PrivilegedGroup, UnionAuthorizer
from opsdk.apiserver.auth.jwt import SigningKey
from opsdk.apiserver.auth.observed_rules import ObservingAuthorizer
from opsdk.apiserver.auth.rbac_authorizer import RbacAuthorizer
from opsdk.apiserver.auth.service_accounts import ServiceAccountTokens, TokenSubject
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.storage.ports import KeyNotFoundError, LocalStorage
from opsdk.http.server.response import HttpResponse, encode_json
from opsdk.structured_merge.value import JsonObject

_DISCOVERY = "/.well-known/openid-configuration"
_KEYS = "/openid/v1/jwks"
_CACHED = ("cache-control", "public, max-age=3600")


class AccessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of authentication and authorization.

    Attributes:
        authenticators: tried in this order, before bearer tokens.
        tokens: fixed bearer tokens.
        authorizer: replaces the default: system:masters is allowed everything, other users have RBAC.
        anonymous: authenticate requests without credentials as ``system:anonymous``.
        key_file: the file of the signing key for service account tokens; None keeps the key in memory.
        more_keys: files with further keys that verify tokens.
        names: the issuer and audiences of tokens.
    """

    authenticators: Sequence[Authenticator] = ()
    tokens: TokenAuthenticator | None = None
    authorizer: Authorizer | None = None
    anonymous: bool = True
    key_file: Path | None = None
    more_keys: Sequence[Path] = ()
    names: TokenSubject = TokenSubject()


class Authenticators:
    """The authenticators and the authorizer that `AccessOptions` describe, on one storage.

    Attributes:
        bearer: the bearer token authenticator.
        rbac: the RBAC rules, also if another authorizer decides.
        key: the signing key of service account tokens.
        authorizer: the authorizer; `observed` wraps it for requests, and records their attributes.
    """

    def __init__(self, access: AccessOptions, storage: LocalStorage) -> None:
        self._storage = storage
        self.anonymous = access.anonymous
        self.names = access.names
        self.key = SigningKey(access.key_file, also=access.more_keys)
        accounts = ServiceAccountTokens(self.key, self.find, names=access.names)
        fixed = (access.tokens,) if access.tokens is not None else ()
        self.bearer = BearerAuthenticator((*fixed, accounts), audiences=access.names.audiences)
        self.authenticators: Sequence[Authenticator] = (*access.authenticators, self.bearer)
        self.rbac = RbacAuthorizer(storage)
        self.authorizer: Authorizer = access.authorizer or UnionAuthorizer((PrivilegedGroup(), self.rbac))
        self.observed = ObservingAuthorizer(self.authorizer)

    def pages(self) -> dict[str, Callable[[Call], HttpResponse]]:
        """The discovery documents for service account tokens."""
        return {_DISCOVERY: self._discovery, _KEYS: self._keys}

    def _discovery(self, call: Call) -> HttpResponse:
        document = {
            "issuer": self.names.issuers[0],
            "jwks_uri": f"{call.http.scheme}://{call.http.header('host')}{_KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.key.algorithm],
        }
        return HttpResponse(200, [("content-type", "application/json"), _CACHED], encode_json(document))

    def _keys(self, _: Call) -> HttpResponse:
        media = "application/jwk-set+json"
        return HttpResponse(200, [("content-type", media), _CACHED], encode_json({"keys": self.key.public()}))

    def find(self, resource: str, namespace: str, name: str) -> JsonObject | None:
        """Return an object of the core group; None if it does not exist."""
        parts = ("core", resource, namespace, name) if namespace else ("core", resource, name)
        try:
            return self._storage.get_now("/".join(parts))
        except KeyNotFoundError:
            return None
