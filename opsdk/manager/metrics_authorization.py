"""Authentication and authorization of requests to the metrics endpoint.

Upstream: sigs.k8s.io/controller-runtime/pkg/metrics/filters/filters.go
Deviates: a token that the API server refuses is 401; controller-runtime answers 500, because the review has an error.
"""

from __future__ import annotations

from opsdk.api.authorization.v1 import NonResourceAttributes
from opsdk.errors import OpsdkError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.rbac.delegated import DelegatedAuth, ReviewClient
from opsdk.telemetry.describe import describe
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# As in filters.go.
_TOKEN_SECONDS = 60.0
_ALLOW_SECONDS = 300.0
_DENY_SECONDS = 30.0


class MetricsAuthorization:
    """Allows a request if its bearer token belongs to a user with access to the path.

    The token is checked with a TokenReview, whose result holds for a minute. The user is checked with a
    SubjectAccessReview for the path and the method in lower case; a permission holds for 5 minutes, a denial for 30 s.
    Grant it with a ClusterRole: ``nonResourceURLs: ["/metrics"], verbs: ["get"]``.

    Args:
        client: sends the reviews; its user needs ``create`` on ``tokenreviews`` and ``subjectaccessreviews``.
    """

    def __init__(self, client: ReviewClient) -> None:
        self._auth = DelegatedAuth(
            client, token_seconds=_TOKEN_SECONDS, allow_seconds=_ALLOW_SECONDS, deny_seconds=_DENY_SECONDS
        )

    async def check(self, request: HttpRequest) -> HttpResponse | None:
        """Return None to allow the request, or the response: 401, 403, or 500 if a review fails."""
        scheme, _, token = request.header("authorization").partition(" ")
        if scheme.lower() != "bearer" or not (token := token.strip()):
            return text_response("Unauthorized\n", status=401)
        try:
            user = await self._auth.user_of(token)
        except (OpsdkError, TimeoutError) as error:
            log.error("cannot review the token of a request for %s: %s", request.path, describe(error)[0])
            return text_response("Authentication failed\n", status=500)
        if user is None:
            return text_response("Unauthorized\n", status=401)
        name = user.username or ""
        try:
            attributes = NonResourceAttributes(path=request.path, verb=request.method.lower())
            allowed = await self._auth.allows(user, attributes)
        except (OpsdkError, TimeoutError) as error:
            log.error("cannot review the access of %s to %s: %s", name, request.path, describe(error)[0])
            return text_response(f"Authorization for user {name} failed\n", status=500)
        return None if allowed else text_response(f"Authorization denied for user {name}\n", status=403)

    def __repr__(self) -> str:
        return f"<MetricsAuthorization by {self._auth!r}>"
