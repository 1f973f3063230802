"""Webhooks as HTTP endpoints: admission, conversion and token reviews.

Errors are returned inside the review, with HTTP status 200. User functions run with a timeout; their exceptions are
logged with a traceback, and returned without.

Upstream: sigs.k8s.io/controller-runtime/pkg/webhook/admission/http.go, admission/webhook.go, conversion/conversion.go,
authentication/http.go
Deviates: a handler has a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from opsdk.apimachinery.gvk import GroupKind
from opsdk.errors import ApiError, ConversionError, UsageError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.context import log_context
from opsdk.webhook import admission, authentication, conversion
from opsdk.webhook.admission import AdmissionRequest, AdmissionResponse, errored, response_for
from opsdk.webhook.authentication import TokenRequest, TokenResponse
from opsdk.webhook.calls import PANICKED, call_user_function, read_body
from opsdk.webhook.conversion import ConversionRequest, Converter
from opsdk.webhook.handlers import Handler

__all__ = ["AdmissionWebhook", "AuthenticationWebhook", "ConversionWebhook"]

DEFAULT_TIMEOUT = 10.0
"""Seconds for a handler: the default ``timeoutSeconds`` of webhook configurations."""
CONVERSION_TIMEOUT = 30.0
"""Seconds for a conversion: the timeout of the API server."""


class Webhook(Protocol):
    """Answers the requests of one path."""

    async def serve(self, request: HttpRequest) -> HttpResponse:
        """Return the response."""
        ...


class AdmissionWebhook:
    """Serves an admission handler.

    Args:
        handler: a `Handler`, or a function from a request to the decision.
        timeout: seconds for a decision; afterwards the request is denied with 504. The API server's own
            ``timeoutSeconds`` counts from the same moment: only if it passes first, ``failurePolicy`` decides.
    """

    def __init__(
        self,
        handler: Handler | Callable[[AdmissionRequest], Awaitable[AdmissionResponse]],
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> None:
        handle = getattr(handler, "handle", handler)
        if not callable(handle):
            raise UsageError(f"{handler!r} is not a handler: it needs `async def handle(self, request)`")
        self._handle: Callable[[AdmissionRequest], Awaitable[AdmissionResponse]] = handle
        self._name = f"webhook {handler!r}"
        self._timeout = timeout

    async def serve(self, request: HttpRequest) -> HttpResponse:
        """See `Webhook`. The HTTP status is 200."""
        try:
            body = await read_body(request, admission.MAX_REQUEST_SIZE)
            review = admission.decode_review(body, request.header("content-type"))
        except ApiError as error:
            return _json(admission.encode_review(response_for(error)))
        # Log fields have controller-runtime's keys; empty ones are omitted.
        admitted = review.request
        resource = ".".join(part for part in (admitted.resource.resource, admitted.resource.group) if part)
        fields = {
            "operation": admitted.operation,
            "resource": f"{resource}/{admitted.subresource}" if admitted.subresource else resource,
            "namespace": admitted.namespace,
            "name": admitted.name,
            "user": admitted.user_info.username,
            "requestID": admitted.uid,
        }
        with log_context(webhook=request.path, **{key: value for key, value in fields.items() if value}):
            response, panicked = await self._decide(review.request)
        if panicked:
            request.state[PANICKED] = "admission"
        return _json(admission.encode_review(response, uid=review.request.uid, api_version=review.api_version))

    async def _decide(self, request: AdmissionRequest) -> tuple[AdmissionResponse, bool]:
        """Return the response, and whether the handler panicked."""
        outcome = await call_user_function(self._call_handler(request), name=self._name, seconds=self._timeout)
        if outcome.value is not None:
            return outcome.value, False
        if outcome.panicked:
            return errored(500, outcome.failure, reason="InternalError"), True
        return errored(504, outcome.failure, reason="Timeout"), False

    async def _call_handler(self, request: AdmissionRequest) -> AdmissionResponse:
        response: object = await self._handle(request)
        if not isinstance(response, AdmissionResponse):
            raise UsageError(f"the handler returned a {type(response).__name__}: return allowed(), denied(...), ...")
        # Encode here, so that a value without a JSON form becomes an error response.
        admission.encode_review(response)
        return response

    def __repr__(self) -> str:
        return f"<AdmissionWebhook of {self._name}>"


class ConversionWebhook:
    """Serves converters, one for each kind.

    Args:
        timeout: seconds for all objects of a review; checked between two objects.
    """

    def __init__(self, *converters: Converter, timeout: float | None = CONVERSION_TIMEOUT) -> None:
        self._converters: dict[GroupKind, Converter] = {}
        self._timeout = timeout
        for converter in converters:
            self.add(converter)

    def add(self, converter: Converter) -> None:
        """Serve another kind. Raises `UsageError` if the kind has a converter."""
        if converter.group_kind in self._converters:
            raise UsageError(f"{converter.group_kind} already has a converter: register one with all its versions")
        self._converters[converter.group_kind] = converter

    async def serve(self, request: HttpRequest) -> HttpResponse:
        """See `Webhook`. The HTTP status is 200, or 400 if the review does not decode."""
        try:
            review = conversion.decode_review(await read_body(request, conversion.MAX_REQUEST_SIZE))
        except ApiError as error:
            return text_response(error.message, status=error.code)
        call = self._convert(review)
        outcome = await call_user_function(call, name="the conversion webhook", seconds=self._timeout)
        if outcome.panicked:
            request.state[PANICKED] = "conversion"
        result = ConversionError(outcome.failure) if outcome.value is None else outcome.value
        return _json(conversion.encode_review(review, result))

    async def _convert(self, review: ConversionRequest) -> list[JsonObject] | ConversionError:
        converted: list[JsonObject] = []
        try:
            for tree in review.objects:
                converted.append(conversion.convert_object(self._converters, tree, review.desired_api_version))
                # A page of a list has hundreds of objects, so let other requests run in between.
                await asyncio.sleep(0)
        except ConversionError as error:
            # A ConversionError is an expected result, so it is not logged as an exception.
            return error
        return converted

    def __repr__(self) -> str:
        return f"<ConversionWebhook of {', '.join(map(str, self._converters))}>"


class AuthenticationWebhook:
    """Serves a function that reviews bearer tokens (``TokenReview``).

    Args:
        handler: from a token to a user.
        timeout: seconds for a review.
    """

    def __init__(
        self, handler: Callable[[TokenRequest], Awaitable[TokenResponse]], *, timeout: float | None = DEFAULT_TIMEOUT
    ) -> None:
        self._handler = handler
        self._timeout = timeout

    async def serve(self, request: HttpRequest) -> HttpResponse:
        """See `Webhook`. The HTTP status is 200."""
        try:
            body = await read_body(request, authentication.MAX_REQUEST_SIZE)
            review = authentication.decode_review(body, request.header("content-type"))
        except ApiError as error:
            return _json(authentication.encode_review(authentication.review_failed(error.message)))
        call = self._handler(review)
        outcome = await call_user_function(call, name="the token webhook", seconds=self._timeout)
        if outcome.panicked:
            request.state[PANICKED] = "admission"
        response = authentication.review_failed(outcome.failure) if outcome.value is None else outcome.value
        return _json(authentication.encode_review(response, review))

    def __repr__(self) -> str:
        return f"<AuthenticationWebhook of {self._handler!r}>"


def _json(body: bytes) -> HttpResponse:
    return HttpResponse(200, [("content-type", "application/json")], body)
