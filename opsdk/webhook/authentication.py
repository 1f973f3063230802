"""Token reviews: requests and responses as values, and their wire form, TokenReview v1 and v1beta1. Pure.

Upstream: sigs.k8s.io/controller-runtime/pkg/webhook/authentication/http.go, response.go
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from opsdk.apimachinery.model import to_builtins
from opsdk.errors import BadRequestError
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject
from opsdk.webhook.admission import UserInfo

__all__ = ["TokenRequest", "TokenResponse", "authenticated", "review_failed", "unauthenticated"]

MAX_REQUEST_SIZE = 1024 * 1024
"""Bytes from which a review is too large."""
KIND = "TokenReview"
_API_VERSIONS = ("authentication.k8s.io/v1", "authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A bearer token to review.

    Attributes:
        token: the opaque token.
        audiences: identifiers of the server that the token must be meant for; empty if the server names none.
        api_version: of the review; the response has the same.
        uid: ``metadata.uid`` of the review.
    """

    token: str
    audiences: Sequence[str] = ()
    api_version: str = _API_VERSIONS[0]
    uid: str = ""

    def __repr__(self) -> str:
        return f"TokenRequest(token=<hidden>, audiences={self.audiences!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenResponse:
    """The result of a review. Create one with `authenticated`, `unauthenticated` or `review_failed`."""

    authenticated: bool
    user: UserInfo | None = None
    audiences: Sequence[str] = ()
    error: str = ""


class _Spec(msgspec.Struct):
    token: str | None = None
    audiences: list[str] | None = None


class _Metadata(msgspec.Struct):
    uid: str | None = None


class _WireReview(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Metadata | None = None
    spec: _Spec | None = None


def authenticated(user: UserInfo, *, audiences: Sequence[str] = ()) -> TokenResponse:
    """Return the response for a token of `user`.

    >>> authenticated(UserInfo(username="ann")).authenticated
    True
    """
    return TokenResponse(authenticated=True, user=user, audiences=audiences)


def unauthenticated(reason: str = "") -> TokenResponse:
    """Return the response for a token that is not valid.

    >>> unauthenticated("expired").error
    'expired'
    """
    return TokenResponse(authenticated=False, error=reason)


def review_failed(message: str) -> TokenResponse:
    """Return the response for a token that could not be checked.

    >>> review_failed("the directory is down").authenticated
    False
    """
    return TokenResponse(authenticated=False, error=message)


def decode_review(body: bytes, content_type: str) -> TokenRequest:
    """Decode a TokenReview v1 or v1beta1.

    Raises:
        BadRequestError: the content type is not exactly ``application/json``, the body is empty or undecodable, or the
            token is empty.
    """
    if not body:
        raise BadRequestError("request body is empty")
    if content_type != "application/json":
        raise BadRequestError(f"contentType={content_type}, expected application/json")
    try:
        review = msgspec.json.decode(body, type=_WireReview)
    except JSON_ERRORS as error:
        raise BadRequestError(f"the TokenReview does not decode: {error}") from error
    api_version = review.api_version or ""
    if (review.kind or api_version) and (review.kind != KIND or api_version not in _API_VERSIONS):
        unknown = f"{api_version}, Kind={review.kind or ''}"
        raise BadRequestError(f"{unknown} is not known: send {_API_VERSIONS[0]}, Kind={KIND}")
    spec = review.spec or _Spec()
    if not spec.token:
        raise BadRequestError("token is empty")
    return TokenRequest(
        token=spec.token,
        audiences=tuple(spec.audiences or ()),
        api_version=api_version or _API_VERSIONS[0],
        uid=(review.metadata and review.metadata.uid) or "",
    )


def encode_review(response: TokenResponse, request: TokenRequest | None = None) -> bytes:
    """Return the review that carries `response`; None if the request could not be decoded."""
    status: JsonObject = {"user": to_builtins(response.user) if response.user is not None else {}}
    if response.authenticated:
        status["authenticated"] = True
    if response.audiences:
        status["audiences"] = list(response.audiences)
    if response.error:
        status["error"] = response.error
    head: JsonObject = {}
    if request is not None:
        metadata = {"uid": request.uid} if request.uid else {}
        head = {"kind": KIND, "apiVersion": request.api_version, "metadata": metadata}
    return msgspec.json.encode({**head, "spec": {}, "status": status})


def __getattr__(name: str) -> object:
    """Return what an old name stands for, with a warning."""
    if name == "__path__":  # each import of this module looks for it
        raise AttributeError(name)
    from opsdk.base.moved_names import resolve  # noqa: PLC0415 - start-up time: only an old name needs it

    return resolve(__name__, name)
