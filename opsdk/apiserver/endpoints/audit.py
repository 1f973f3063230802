"""A bounded audit log with ``audit.k8s.io/v1`` events.

Upstream: k8s.io/apiserver/pkg/audit (v1.36).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from opsdk.aio.clock import utc_now
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.endpoints.request_info import RequestInfo
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The audit event of one request.

    Attributes:
        user: the authenticated user; with impersonation, `impersonated_user` is the user that the request acts as.
        code: the HTTP status.
        request_received_timestamp: when the server received the request, by its own clock.
        stage_timestamp: when the response began.
        annotations: the audit annotations of admission plugins.
    """

    audit_id: str
    info: RequestInfo
    uri: str
    user: User
    impersonated_user: User | None = None
    code: int
    request_received_timestamp: datetime
    stage_timestamp: datetime
    user_agent: str = ""
    source: str = ""
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def effective(self) -> User:
        """The user that the request acts as."""
        return self.impersonated_user or self.user

    @property
    def verb(self) -> str:
        """The API verb, e.g. ``get``, ``list``, ``watch``; for non-resource requests the lower-case method."""
        return self.info.verb

    @property
    def resource(self) -> str:
        """``pods`` or ``pods/status``; empty for non-resource requests."""
        info = self.info
        return f"{info.resource}/{info.subresource}" if info.subresource else info.resource

    def event(self) -> JsonObject:
        """Return an ``Event`` of ``audit.k8s.io/v1``, of level Metadata."""
        fields: JsonObject = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.audit_id,
            "stage": "ResponseStarted" if self.verb == "watch" and self.code < 400 else "ResponseComplete",
            "requestURI": self.uri,
            "verb": self.verb,
            "user": self.user.user_info(),
        }
        if self.impersonated_user is not None:
            fields["impersonatedUser"] = self.impersonated_user.user_info()
        if self.source:
            fields["sourceIPs"] = [self.source]
        if self.user_agent:
            fields["userAgent"] = self.user_agent
        if self.info.is_resource:
            info = self.info
            reference = {
                "resource": info.resource,
                "namespace": info.namespace,
                "name": info.name,
                "apiGroup": info.group,
                "apiVersion": info.version,
                "subresource": info.subresource,
            }
            fields["objectRef"] = {key: value for key, value in reference.items() if value}
        fields["responseStatus"] = {"metadata": {}, "code": self.code}
        fields["requestReceivedTimestamp"] = self.request_received_timestamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        fields["stageTimestamp"] = self.stage_timestamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if self.annotations:
            fields["annotations"] = dict(self.annotations)
        return fields


class AuditLog:
    """A filter that keeps the audit events of the last `limit` requests, oldest first.

    Attributes:
        count: the number of all requests, including those whose events were dropped.
    """

    def __init__(self, *, limit: int = 1000) -> None:
        self.count = 0
        self._records: deque[AuditEvent] = deque(maxlen=limit)

    def __repr__(self) -> str:
        return f"<AuditLog of {len(self._records)} of {self.count} requests>"

    def __iter__(self) -> Iterator[AuditEvent]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)

    def clear(self) -> None:
        """Drop all events; `count` is kept."""
        self._records.clear()

    def select(
        self, *, user: str = "", verb: str = "", resource: str = "", namespace: str = "", name: str = "", code: int = 0
    ) -> list[AuditEvent]:
        """Return the events that match all given values."""
        return [
            r
            for r in self._records
            if (not user or user == r.effective.name)
            and (not verb or verb == r.verb)
            and (not resource or resource == r.resource)
            and (not namespace or namespace == r.info.namespace)
            and (not name or name == r.info.name)
            and (not code or code == r.code)
        ]

    async def __call__(self, call: Call, handler: Handler) -> HttpResponse:
        """See `Filter`; it records all responses, including errors."""
        received = utc_now()
        response = await handler(call)
        query = call.http.query.raw
        self.count += 1
        self._records.append(
            AuditEvent(
                audit_id=call.audit_id,
                info=call.info,
                uri=f"{call.info.path}?{query}" if query else call.info.path,
                user=call.impersonator or call.user,
                impersonated_user=call.user if call.impersonator is not None else None,
                code=response.status,
                request_received_timestamp=received,
                stage_timestamp=utc_now(),
                user_agent=call.http.header("user-agent"),
                source=call.http.client,
                annotations=call.annotations,
            )
        )
        return response
