"""TokenReviews and SelfSubjectReviews; the server stores neither.

Upstream: pkg/registry/authentication (v1.36)
"""

from __future__ import annotations

from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.authentication import BearerAuthenticator
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.errors import UnauthorizedError
from opsdk.structured_merge.value import JsonObject

GROUP = "authentication.k8s.io"


class SelfSubjectReviews:
    """The store of SelfSubjectReviews: returns the user of the request."""

    def __init__(self) -> None:
        self.strategy = Strategy()

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        head: JsonObject = {key: obj[key] for key in ("kind", "apiVersion") if key in obj}
        meta = {"creationTimestamp": context.timestamp()}
        return {**head, "metadata": meta, "status": {"userInfo": context.user.user_info()}}


class TokenReviews:
    """The store of TokenReviews: authenticates a token."""

    def __init__(self, bearer: BearerAuthenticator) -> None:
        self.strategy = Strategy()
        self._bearer = bearer

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        spec = obj.get("spec") or {}
        token = spec.get("token", "")
        if not token:
            raise api_errors.bad_request("token is required for TokenReview in authentication")
        await validate(obj, None)
        audiences = tuple(spec.get("audiences") or self._bearer.audiences)
        try:
            result = await self._bearer.check(token, audiences)
        except UnauthorizedError as error:
            return {**obj, "status": {"user": {}, "error": error.message}}
        status: JsonObject = {"authenticated": True, "user": result.user.user_info()}
        if result.audiences:
            status["audiences"] = list(result.audiences)
        return {**obj, "status": status}
