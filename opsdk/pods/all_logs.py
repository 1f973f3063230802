"""The logs of all containers of a Pod, as one iterator.

Upstream: k8s.io/kubectl/pkg/polymorphichelpers/logsforobject.go (v1.36)
Deviates: kubectl ends at the first container that has no log yet; here containers that have not started are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing

from opsdk.aio.clock import utc_now
from opsdk.api.core.v1 import ContainerStatus, Pod
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import kind_of
from opsdk.pods.requests import pod_request
from opsdk.rest.response import raise_for_status
from opsdk.rest.transport import Transport


def containers_with_log(pod: Pod, *, previous: bool) -> list[str]:
    """Return the names of the init containers, containers and ephemeral containers that have a log. Pure.

    A container without status counts as one with a log, because the kubelet may not have reported it yet. With
    `previous`, the others are those that have ended before.
    """
    spec, status = pod.spec, pod.status
    reported = [
        *status.init_container_statuses,
        *status.container_statuses,
        *status.ephemeral_container_statuses,
    ]
    states = {state.name: state for state in reported}
    names = [
        *(container.name for container in spec.init_containers),
        *(container.name for container in spec.containers),
        *(container.name for container in spec.ephemeral_containers),
    ]
    return [name for name in names if name not in states or _has_log(states[name], previous=previous)]


def _has_log(status: ContainerStatus, *, previous: bool) -> bool:
    return status.last_state.terminated is not None or not (previous or status.state.waiting is not None)


async def read_pod(transport: Transport, pod: ObjectKey | str) -> Pod:
    """Return a Pod. Raises `ApiError`, `TransportError` and `DecodeError`."""
    request = pod_request("GET", pod, "", [])
    response = await transport.send(request)
    raise_for_status(response, request, now=utc_now())
    return decode(response.body, kind_of(Pod))


async def merged(logs: Mapping[str, AsyncGenerator[str, None]]) -> AsyncGenerator[tuple[str, str], None]:
    """Yield the lines of several logs as they arrive, each with the name of its log; end when all have ended.

    Each log waits with one line until the caller takes it, and a log with many lines does not hold up another one. The
    first error ends all logs.
    """
    async with AsyncExitStack() as stack:
        for lines in logs.values():
            await stack.enter_async_context(aclosing(lines))
        waiting = {asyncio.ensure_future(anext(lines, None)): name for name, lines in logs.items()}
        try:
            while waiting:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in waiting if task.done()]:
                    name, line = waiting.pop(task), task.result()
                    if line is not None:
                        waiting[asyncio.ensure_future(anext(logs[name], None))] = name
                        yield name, line
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
