"""Installs the CustomResourceDefinitions of an operator in a test cluster.

Upstream: sigs.k8s.io/controller-runtime/pkg/envtest/crd.go (the same task for files)
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.recipes.definitions import apply_definitions
from opsdk.structured_merge.value import JsonObject

__all__ = ["install_definitions"]

_POLL_SECONDS = 0.02


async def install_definitions(client: Client, definitions: Sequence[JsonObject], *, within: float = 30.0) -> list[str]:
    """Apply definitions, and return when the server serves them. Returns the names of those that it changed.

    Args:
        client: writes directly to the server.
        definitions: complete objects, as `crd_for` returns them.
        within: seconds for all of them.

    Raises:
        NoMatchError: the server rejects the names of a definition.
        DeadlineError: a definition is not established in time.
        ApiError: the server rejects a definition.
    """
    names = [definition["metadata"]["name"] for definition in definitions]
    before = {name: await client.get_or_none(CustomResourceDefinition, name, uncached=True) for name in names}
    # A test server establishes a definition immediately.
    installed = await apply_definitions(client, definitions, within=within, poll_interval=_POLL_SECONDS)
    return [each.metadata.name for each in installed if _differs(before[each.metadata.name], each)]


def _differs(before: CustomResourceDefinition | None, after: Unstructured) -> bool:
    return before is None or before.metadata.resource_version != after.metadata.resource_version
