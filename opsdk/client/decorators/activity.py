"""Records requests for the journal of reconciles."""

from __future__ import annotations

from functools import partial
from typing import Any

from opsdk.aio.clock import loop_time
from opsdk.apimachinery.codec import encode
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.object import ObjectList
from opsdk.client.activity import Activity, RequestSent, current_activity
from opsdk.client.decorators.wrapper import Wrapper
from opsdk.client.operations import Create, Delete, Get, List, ObjectWrite, Operation, PatchObject
from opsdk.client.ports import OperationExecutor
from opsdk.errors import ApiError, NotFoundError


class RecordRequests(Wrapper):
    """Adds each request to the activity of the task that sends it (see `opsdk.client.activity`)."""

    def __init__(self, inner: OperationExecutor) -> None:
        super().__init__(inner)

    async def execute(self, operation: Operation) -> Any:
        """Execute the operation, and record it."""
        activity = current_activity()
        if activity is None:
            return await self.inner.execute(operation)
        reason = activity.take_reason()
        clock = loop_time()
        started = clock()
        status, result = 0, None
        try:
            result = await self.inner.execute(operation)
            status = 201 if isinstance(operation, Create) else 200
        except ApiError as error:
            status = error.code
            if isinstance(operation, Get) and isinstance(error, NotFoundError):
                _record_reads(activity, operation, None)
            raise
        finally:
            activity.record_request(_request_sent(operation, result, status, clock() - started, reason))
        if not isinstance(operation, ObjectWrite):
            _record_reads(activity, operation, result)
        return result


def _request_sent(operation: Operation, result: Any, status: int, seconds: float, reason: str) -> RequestSent:
    """Return the journal's record of a request."""
    verb = "patch" if isinstance(operation, PatchObject) else type(operation).__name__.lower()
    subresource, version = "", ""
    match operation:
        case ObjectWrite():
            name = operation.obj.metadata.name or operation.obj.metadata.generate_name
            subresource = operation.subresource
            version = result.metadata.resource_version if result is not None else ""
        case Get():
            name, subresource = operation.key.name, operation.subresource
        case Delete():
            name = operation.key.name
        case List():
            name = "*"
        case _:
            name, verb = "*", "deletecollection"
    return RequestSent(
        verb=verb,
        gvk=str(operation.gvk),
        key=f"{namespace}/{name}" if (namespace := operation.namespace) else name,
        subresource=subresource,
        status=status,
        seconds=seconds,
        resource_version=version,
        reason=reason,
    )


def _record_reads(activity: Activity, operation: Operation, result: Any) -> None:
    """Record the objects that came from the server."""
    if isinstance(operation, Get) and not operation.subresource:
        version = "" if result is None else result.metadata.resource_version
        data = None if result is None else partial(encode, result)
        activity.record_read(operation.kind.gvk, operation.key, version, cached=False, data=data)
    elif isinstance(operation, List) and isinstance(result, ObjectList):
        for obj in result:
            key = ObjectKey(obj.metadata.namespace, obj.metadata.name)
            version = obj.metadata.resource_version
            activity.record_read(operation.kind.gvk, key, version, cached=False, data=partial(encode, obj))
