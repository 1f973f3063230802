"""Creates the CustomResourceDefinitions of classes, and waits until the server serves them.

Upstream: github.com/rancher/wrangler/pkg/crd (BatchCreateCRDs, BatchWait)
Deviates: the definitions are applied with server-side apply; wrangler creates or updates them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.errors import DeadlineError, NoMatchError
from opsdk.recipes.summaries import SummaryState, summary
from opsdk.structured_merge.value import JsonObject

_DEFINITION: Final = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
POLL_SECONDS: Final = 0.5
"""Seconds between two reads of a definition, as in wrangler: the server takes about a second to establish one."""


async def create_crds(
    client: Client, kinds: Sequence[type[Any]], *, field_owner: str = "opsdk-definitions", within: float = 60.0
) -> list[Unstructured]:
    """Apply the definitions of classes concurrently, and return them when all are established.

    Call it before the controllers start, for programs that install their own kinds. It needs the permission to patch
    and get CustomResourceDefinitions. Repeated calls change nothing.

    >>> async def install(cluster: Cluster) -> None:
    ...     await create_crds(cluster.uncached, [Website, WebsiteV2])

    Args:
        client: reads from and writes to the server.
        kinds: classes; those of one group and kind are versions of one definition, the hub first.
        field_owner: the field manager.
        within: seconds for all of them.

    Raises:
        NoMatchError: the server rejects the names of a definition.
        DeadlineError: a definition is not established in time.
        ApiError: the server rejected a definition.
    """
    from opsdk.apimachinery.crd import crds_for  # noqa: PLC0415 - start-up time: few programs create definitions

    return await apply_definitions(client, crds_for(kinds), field_owner=field_owner, within=within)


async def apply_definitions(
    client: Client,
    definitions: Sequence[JsonObject],
    *,
    field_owner: str = "opsdk-definitions",
    within: float = 60.0,
    poll_interval: float = POLL_SECONDS,
) -> list[Unstructured]:
    """Apply definitions concurrently, and return them when all are established. Like `create_crds`, for JSON trees.

    Args:
        client: reads from and writes to the server.
        definitions: complete objects, as `crd_for` returns them.
        field_owner: the field manager.
        within: seconds for all of them.
        poll_interval: seconds between two reads of a definition.

    Raises:
        NoMatchError: the server rejects the names of a definition.
        DeadlineError: a definition is not established in time.
        ApiError: the server rejected a definition.
    """
    start = monotonic()
    applied = [Unstructured.from_tree(tree) for tree in definitions]
    results = await asyncio.gather(
        *(client.apply(definition, field_owner=field_owner, force=True) for definition in applied),
        return_exceptions=True,
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
    names = [definition.metadata.name for definition in applied]
    remaining = within - (monotonic() - start)
    return await wait_established(client, names, within=remaining, poll_interval=poll_interval)


async def wait_established(
    client: Client, names: Sequence[str], *, within: float = 60.0, poll_interval: float = POLL_SECONDS
) -> list[Unstructured]:
    """Return definitions by name when all are established. Arguments and errors are those of `apply_definitions`."""
    deadline = monotonic() + within
    return [await _wait_one_established(client, name, deadline, poll_interval) for name in names]


async def _wait_one_established(client: Client, name: str, deadline: float, poll_interval: float) -> Unstructured:
    while True:
        definition = await client.get(_DEFINITION, name, uncached=True)
        state = summary(definition)
        if state.state is SummaryState.CURRENT:
            return definition
        if state.state is SummaryState.FAILED:
            raise NoMatchError(
                f"the server rejects {name}: {state.message}; delete the other definition, or rename this one"
            )
        if monotonic() >= deadline:
            raise DeadlineError(f"{name} is not established before the deadline: {state.message}")
        await asyncio.sleep(poll_interval)
