"""Records the requests of an operator as permissions, with the line of the code that sent each."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Final

from opsdk.errors import RequestInfo
from opsdk.rbac.permissions import ALL_NAMESPACES, Permission, RuleSet
from opsdk.telemetry.context import current
from opsdk.telemetry.records import Record, Requested, TelemetryHook

__all__ = ["RuleRecorder"]

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_STANDARD_LIBRARY: Final = str(Path(os.__file__).parent) + os.sep
_TASK_STEP: Final = asyncio.Handle._run.__code__  # noqa: SLF001 - the frame in which the loop runs each task
_FINALIZERS: Final = "/finalizers"
_CREATE_EVENTS: Final = ("create", "events.k8s.io", "events")

_DISCOVERY_PATHS: Final = (
    "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
    "/version/",
)  # fmt: skip
AUTHENTICATED_USER_RULES: Final = RuleSet(
    [
        Permission("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
        Permission("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
        Permission("create", "authentication.k8s.io", "selfsubjectreviews"),
        *(Permission("get", path=path) for path in _DISCOVERY_PATHS),
    ]
)
"""Permissions that the bootstrap roles ``system:basic-user`` and ``system:discovery`` grant to every user."""

_MAX_NAMES: Final = 1000
"""Names that are recorded for one verb and resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRequest:
    """A request, as the authorizer sees it.

    Attributes:
        permission: verb, resource, name and namespace.
        caller: ``file:line`` of the user's code that sent it first. For informers and other background work, the
            controller whose reconcile started them.
        background: no line of the user's code waits for the response.
        forbidden: the server returned 403.
    """

    permission: Permission
    caller: str = ""
    background: bool = False
    forbidden: bool = False

    def __str__(self) -> str:
        caller = f" ({self.caller})" if self.caller else ""
        return f"{self.permission}{' [forbidden]' if self.forbidden else ''}{caller}"


class RuleRecorder(TelemetryHook):
    """Records every request that passes a hook: those of clients, informers, the recorder of Events and the election.

    ::

        recorder = RuleRecorder()
        async with Cluster(config, hook=recorder) as cluster:
            await cluster.uncached.list(Secret)
        print(recorder.rules())

    A server-side apply or an update that creates its object counts as ``create`` too. Requests of `Cluster.http` are
    not recorded. A list or watch of one object by a field selector is that of its name. After 1,000 names with
    the same verb and resource, requests for further names count as requests for every name.

    Args:
        implied: returns the permissions that opsdk declares itself. `unused` leaves them out.
    """

    def __init__(self, implied: Callable[[], RuleSet] = RuleSet) -> None:
        self._implied = implied
        self._requests: dict[Permission, ObservedRequest] = {}
        self._names: Counter[tuple[str, str, str]] = Counter()

    def record(self, record: Record) -> None:
        if not isinstance(record, Requested) or record.request is None:
            return
        verbs = {"PUT": ("create",), "PATCH": ("create",)}.get(record.method, ()) if record.status == 201 else ()
        for verb in (record.request.verb.lower(), *verbs):
            permission = _permission(record.request, verb)
            kind = (verb, permission.group, permission.resource)
            if permission not in self._requests and self._names[kind] >= _MAX_NAMES:
                permission = permission._replace(name="")
            previous = self._requests.get(permission)
            forbidden = record.status == 403
            if previous is None:
                line = _caller()
                caller = line or _controller()
                self._names[kind] += 1
                self._requests[permission] = ObservedRequest(
                    permission=permission, caller=caller, background=not line, forbidden=forbidden
                )
            elif forbidden:
                self._requests[permission] = replace(previous, forbidden=True)

    @property
    def requests(self) -> Sequence[ObservedRequest]:
        """The distinct requests in a stable order, without those that every authenticated user may send."""
        return [
            self._requests[permission]
            for permission in RuleSet(self._requests)
            if not AUTHENTICATED_USER_RULES.covers(permission)
        ]

    @property
    def forbidden(self) -> Sequence[ObservedRequest]:
        """The requests that the server refused with 403."""
        return [request for request in self.requests if request.forbidden]

    def rules(self, declared: RuleSet | None = None) -> RuleSet:
        """Return the smallest rules for the requests.

        A test chooses names and namespaces freely, so a request becomes the permission of `declared` that
        covers it, the narrowest one. A request that `declared` does not cover becomes a permission for every name, in
        all namespaces unless `declared` holds namespaces only. An informer's watch stands for get, list and watch:
        which of them it sends depends on the server.
        """
        declared = declared or RuleSet()
        anywhere = not declared or ALL_NAMESPACES in declared.namespaces
        return RuleSet(
            _covering_permission(need, declared, anywhere=anywhere) for need in self._required_requests()
        ).normalized()

    def missing(self, declared: RuleSet) -> Sequence[ObservedRequest]:
        """Return the requests that `declared` does not cover; get, list and watch of an informer are three."""
        needs = self._required_requests()
        return [needs[permission] for permission in RuleSet(needs) if not declared.covers(permission)]

    def unused(self, declared: RuleSet) -> RuleSet:
        """Return the declared permissions that no request used.

        Three kinds are left out. The implied permissions are opsdk's own, and many tests do not need them all: they
        are for a renewed certificate or a second replica. Admission checks ``update`` of the subresource
        ``finalizers``, so no request has it. Only repeated Events are patched, so ``create`` of Events counts for
        both.
        """
        used = with_repeated_events(self.rules(declared)) | self._implied()
        return RuleSet(p for p in declared if not used.covers(p) and not p.resource.endswith(_FINALIZERS))

    def _required_requests(self) -> dict[Permission, ObservedRequest]:
        """Return the requests, and those that the informers would send to another server."""
        needs = {request.permission: request for request in self.requests}
        for request in [r for r in needs.values() if r.background and r.permission.verb == "watch"]:
            for verb in ("get", "list"):
                permission = request.permission._replace(verb=verb)
                needs.setdefault(permission, replace(request, permission=permission, forbidden=False))
        return needs

    def __len__(self) -> int:
        """The number of distinct requests."""
        return len(self._requests)

    def __repr__(self) -> str:
        return f"<RuleRecorder of {len(self._requests)} requests>"


def with_repeated_events(used: RuleSet) -> RuleSet:
    """Return used permissions with the patch of Events, where they are created: only a repeated Event is patched."""
    return used | RuleSet(p._replace(verb="patch") for p in used if p[:3] == _CREATE_EVENTS)


def _permission(info: RequestInfo, verb: str) -> Permission:
    if not info.resource:
        return Permission(verb, path=info.path)
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    # The authorizer does not know the name of an object that a POST creates.
    is_post = verb == "create" == info.verb and not info.subresource
    return Permission(verb, info.group, resource, "" if is_post else info.name, info.namespace)


def _covering_permission(permission: Permission, declared: RuleSet, *, anywhere: bool) -> Permission:
    covering = [own for own in declared if own.covers(permission)]
    if covering:
        return max(covering, key=lambda own: (bool(own.name), bool(own.namespace), -sum("*" in text for text in own)))
    return permission._replace(name="", namespace=ALL_NAMESPACES if anywhere else permission.namespace)


def _caller() -> str:
    """Return the innermost line outside opsdk and the standard library; empty in a task of opsdk's own."""
    frame: FrameType | None = sys._getframe(1)
    # Behind the event loop's frames are those that started the loop, which did not send the request.
    while frame is not None and frame.f_code is not _TASK_STEP:
        path = frame.f_code.co_filename
        if not path.startswith((_PACKAGE, "<")) and (not path.startswith(_STANDARD_LIBRARY) or "site-packages" in path):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _controller() -> str:
    """Return the controller whose reconcile started this task, such as the first cached read of a kind."""
    fields = current()
    return f"from a reconcile of controller {fields['controller']}" if "reconcileID" in fields else ""
