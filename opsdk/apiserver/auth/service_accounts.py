"""Service account tokens: claims, and their validation against stored objects.

Upstream: k8s.io/kubernetes/pkg/serviceaccount/claims.go, legacy.go (v1.36).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence

import msgspec

from opsdk.aio.clock import utc_now
from opsdk.apiserver.auth.authentication import Authenticated
from opsdk.apiserver.auth.jwt import SigningKey, unverified
from opsdk.apiserver.auth.rbac import SERVICE_ACCOUNT, quoted
from opsdk.apiserver.auth.user import User
from opsdk.errors import UnauthorizedError
from opsdk.structured_merge.value import JsonObject, JsonValue

ISSUER = "https://kubernetes.default.svc"
KEPT_ISSUER = "kubernetes/serviceaccount"
"""The issuer of legacy tokens in Secrets; they do not expire."""
LEEWAY = 60
"""Allowed clock skew in seconds."""
_ACCOUNTS = "system:serviceaccounts"
_EXTRA = "authentication.kubernetes.io/"
_PRIVATE = "kubernetes.io"
_KEPT = "kubernetes.io/serviceaccount/"

Find = Callable[[str, str, str], JsonObject | None]
"""Returns the current object by resource, namespace and name."""


def split_username(name: str) -> tuple[str, str] | None:
    """Return the namespace and name of a service account's username; None for other users."""
    if not name.startswith(SERVICE_ACCOUNT):
        return None
    parts = name.removeprefix(SERVICE_ACCOUNT).split(":")
    return (parts[0], parts[1]) if len(parts) == 2 and all(parts) else None


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of all service accounts of a namespace."""
    return (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}")


class TokenSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The issuer and audiences of a server's tokens.

    Attributes:
        issuers: the first one issues tokens; tokens of all of them are accepted.
        audiences: the audiences that identify this server.
    """

    issuers: tuple[str, ...] = (ISSUER,)
    audiences: tuple[str, ...] = (ISSUER,)


class BoundObject(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a token is bound to; a node in addition to a pod only records where the pod runs."""

    pod: JsonObject | None = None
    secret: JsonObject | None = None
    node: JsonObject | None = None


def claims_of(
    account: JsonObject,
    bound_object: BoundObject,
    *,
    issuer: str = ISSUER,
    audiences: Sequence[str],
    now: int,
    seconds: int,
    warn_after: int = 0,
    token_id: str,
) -> JsonObject:
    """Return the claims of a new token; `warn_after` is when the client should have renewed it."""
    meta = account["metadata"]
    private: JsonObject = {"namespace": meta["namespace"], "serviceaccount": _reference(account)}
    for key, obj in (("pod", bound_object.pod), ("secret", bound_object.secret), ("node", bound_object.node)):
        if obj is not None:
            private[key] = _reference(obj)
    if warn_after:
        private["warnafter"] = now + warn_after
    return {
        "aud": list(audiences),
        "exp": now + seconds,
        "iat": now,
        "iss": issuer,
        "jti": token_id,
        "nbf": now,
        "sub": f"{SERVICE_ACCOUNT}{meta['namespace']}:{meta['name']}",
        _PRIVATE: private,
    }


def _reference(obj: JsonObject) -> dict[str, str]:
    meta = obj["metadata"]
    reference = {"name": meta["name"], "uid": meta.get("uid", "")}
    return {key: value for key, value in reference.items() if value}


def check_times(claims: Mapping[str, JsonValue], now: int) -> None:
    """Raise `UnauthorizedError` for an expired token, or one that is not valid yet."""
    if now - LEEWAY > _number(claims, "exp"):
        raise UnauthorizedError("service account token has expired")
    if now + LEEWAY < _number(claims, "nbf"):
        raise UnauthorizedError("service account token is not valid yet")
    if now + LEEWAY < _number(claims, "iat"):
        raise UnauthorizedError("service account token is issued in the future")


def _number(claims: Mapping[str, JsonValue], key: str) -> float:
    value = claims.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UnauthorizedError("service account token claims could not be validated")
    return value


def user_of(claims: Mapping[str, JsonValue], find: Find) -> User:
    """Return the token's user. Raises `UnauthorizedError` if the account or a bound object was deleted or replaced."""
    private = _mapping(claims.get(_PRIVATE))
    namespace, account = str(private.get("namespace", "")), _mapping(private.get("serviceaccount"))
    name = str(account.get("name", ""))
    account_object = find("serviceaccounts", namespace, name)
    if account_object is None:
        raise UnauthorizedError(f'serviceaccounts "{name}" not found')
    _check_uid(account_object, account, "service account UID ({}) does not match claim ({})")
    secret, pod, node = (_mapping(private.get(k)) for k in ("secret", "pod", "node"))
    if secret:
        _check_bound_object(find("secrets", namespace, str(secret.get("name"))), secret, "secret", "secret")
    if pod:
        _check_bound_object(find("pods", namespace, str(pod.get("name"))), pod, "pod", "pod")
    elif node:
        _check_bound_object(find("nodes", "", str(node.get("name"))), node, "node", "node")
    extra = {f"{_EXTRA}credential-id": (f"JTI={claims['jti']}",)} if claims.get("jti") else {}
    for word, ref in (("node", node), ("pod", pod)):
        for part in ("name", "uid"):
            if ref.get(part):
                extra[f"{_EXTRA}{word}-{part}"] = (str(ref[part]),)
    username = f"{SERVICE_ACCOUNT}{namespace}:{name}"
    return User(
        name=username, uid=account_object["metadata"].get("uid", ""), groups=account_groups(namespace), extra=extra
    )


def kept_claims(account: JsonObject, secret: JsonObject) -> JsonObject:
    """Return the claims of a legacy token in a Secret."""
    meta = account["metadata"]
    return {
        "iss": KEPT_ISSUER,
        f"{_KEPT}namespace": meta["namespace"],
        f"{_KEPT}secret.name": secret["metadata"]["name"],
        f"{_KEPT}service-account.name": meta["name"],
        f"{_KEPT}service-account.uid": meta.get("uid", ""),
        "sub": f"{SERVICE_ACCOUNT}{meta['namespace']}:{meta['name']}",
    }


def user_of_kept(claims: Mapping[str, JsonValue], token: str, find: Find) -> User:
    """Return a legacy token's user. Raises `UnauthorizedError` unless Secret and account are unchanged."""
    place, secret, name, uid = (
        str(claims.get(_KEPT + part, ""))
        for part in ("namespace", "secret.name", "service-account.name", "service-account.uid")
    )
    if claims.get("sub") != f"{SERVICE_ACCOUNT}{place}:{name}":
        raise UnauthorizedError("sub claim is invalid")
    secret_object = find("secrets", place, secret)
    if (
        secret_object is None
        or (secret_object.get("data") or {}).get("token") != base64.b64encode(token.encode()).decode()
    ):
        raise UnauthorizedError("token does not match server's copy" if secret_object else "token has been invalidated")
    account = find("serviceaccounts", place, name)
    if account is None:
        raise UnauthorizedError(f'serviceaccounts "{name}" not found')
    _check_uid(account, {"uid": uid}, "service account UID ({}) does not match claim ({})")
    return User(name=f"{SERVICE_ACCOUNT}{place}:{name}", uid=uid, groups=account_groups(place))


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _check_bound_object(obj: JsonObject | None, ref: Mapping[str, JsonValue], kind: str, claim: str) -> None:
    if obj is None:
        raise UnauthorizedError("service account token has been invalidated")
    _check_uid(obj, ref, f"{kind} UID ({{}}) does not match service account {claim} ref claim ({{}})")


def _check_uid(obj: JsonObject, ref: Mapping[str, JsonValue], text: str) -> None:
    uid = obj["metadata"].get("uid", "")
    if uid != ref.get("uid"):
        raise UnauthorizedError(text.format(uid, ref.get("uid", "")))


def matching_audiences(
    claims: Mapping[str, JsonValue], requested: Sequence[str], *, unless_said: Sequence[str] = (ISSUER,)
) -> tuple[str, ...]:
    """Return the requested audiences that the token is valid for. Raises `UnauthorizedError` if no audience matches."""
    audience_claim = claims.get("aud") or unless_said
    audiences = (
        [audience_claim] if isinstance(audience_claim, str) else [a for a in audience_claim if isinstance(a, str)]
    )
    both = tuple(a for a in audiences if a in requested)
    if not both:
        text = f"token audiences {quoted(audiences)} is invalid for the target audiences {quoted(requested)}"
        raise UnauthorizedError(text)
    return both


class ServiceAccountTokens:
    """Checks service account tokens of this server against the stored objects."""

    def __init__(self, key: SigningKey, find: Find, *, names: TokenSubject = TokenSubject()) -> None:  # noqa: B008 - frozen
        self._key = key
        self._names = names
        self._find = find

    def __repr__(self) -> str:
        return f"<ServiceAccountTokens signed with {self._key!r}>"

    async def check(self, token: str, audiences: Sequence[str]) -> Authenticated | None:
        claims = unverified(token)
        if claims is None or claims.get("iss") not in (*self._names.issuers, KEPT_ISSUER):
            return None
        claims = self._key.verify(token)
        if claims["iss"] == KEPT_ISSUER:
            both = matching_audiences({}, audiences, unless_said=self._names.audiences)
            return Authenticated(user_of_kept(claims, token, self._find), both)
        both = matching_audiences(claims, audiences, unless_said=self._names.audiences)
        check_times(claims, int(utc_now().timestamp()))
        return Authenticated(user_of(claims, self._find), both)
