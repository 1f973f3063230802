"""Creates the CustomResourceDefinitions of classes, and waits until the server serves them.

Upstream: github.com/rancher/wrangler/pkg/crd (BatchCreateCRDs, BatchWait)
Deviates: the definitions are applied with server-side apply; wrangler creates or updates them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.kinds import unstructured
from opsdk.apimachinery.object import TypedObject, Unstructured
from opsdk.client.client import Client
from opsdk.errors import DeadlineError, NoMatchError
from opsdk.recipes.summaries import SummaryState, summary

_DEFINITION: Final = unstructured("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_POLL_SECONDS: Final = 0.5
"""As wrangler: the server takes about a second to establish a definition."""


async def create_crds(
    client: Client,
    kinds: Sequence[type[TypedObject]],
    *,
    field_owner: str = "opsdk-definitions",
    within: float = 60.0,
    clock: Clock = LOOP_CLOCK,
) -> list[Unstructured]:
    """Apply the definitions of classes, all at once, and return them when all are established.

    Call it before the controllers start, for programs that install their own kinds. It needs the permission to patch
    and get CustomResourceDefinitions. Repeated calls change nothing.

    >>> async def install(cluster: Cluster) -> None:
    ...     await create_crds(cluster.uncached, [Website, WebsiteV2])

    Args:
        client: reads from and writes to the server.
        kinds: classes; those of one group and kind are versions of one definition, the hub first.
        field_owner: the field manager.
        within: seconds for all of them.
        clock: source of time.

    Raises:
        NoMatchError: the server refuses the names of a definition.
        DeadlineError: a definition is not established in time.
        ApiError: the server rejected a definition.
    """
    versions: dict[tuple[str, str], list[type[TypedObject]]] = {}
    for kind in kinds:
        versions.setdefault(kind.gvk.group_kind, []).append(kind)
    trees = [crd_for(*classes) for classes in versions.values()]
    deadline = clock.now() + within
    applied = [Unstructured.from_tree(tree) for tree in trees]
    results = await asyncio.gather(
        *(client.apply(definition, field_owner=field_owner, force=True) for definition in applied),
        return_exceptions=True,
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [await _established(client, definition.metadata.name, deadline, clock) for definition in applied]


async def _established(client: Client, name: str, deadline: float, clock: Clock) -> Unstructured:
    while True:
        definition = await client.get(_DEFINITION, name, uncached=True)
        state = summary(definition)
        if state.state is SummaryState.CURRENT:
            return definition
        if state.state is SummaryState.FAILED:
            raise NoMatchError(f"the server refuses {name}: {state.message}; delete the other definition, or rename")
        if clock.now() >= deadline:
            raise DeadlineError(f"{name} is not established in time: {state.message}")
        await clock.sleep(_POLL_SECONDS)
