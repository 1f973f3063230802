"""Installs the CustomResourceDefinitions of an operator in a test cluster.

Upstream: sigs.k8s.io/controller-runtime/pkg/envtest/crd.go (the same task for files)
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.errors import NoMatchError
from opsdk.structured_merge.value import JsonObject

_POLL_SECONDS = 0.02
_FIELD_OWNER = "opsdk-definitions"


async def install_definitions(
    client: Client, definitions: Sequence[JsonObject], *, within: float = 30.0, clock: Clock = LOOP_CLOCK
) -> list[str]:
    """Apply definitions, and return when the server serves them. Returns the names of those that it changed.

    Args:
        client: writes directly to the server.
        definitions: complete objects, as `crd_for` returns them.
        within: seconds for all of them.
        clock: source of time.

    Raises:
        NoMatchError: the server refuses the names, or does not serve the kind in time.
        ApiError: the server refuses a definition.
    """
    changed, deadline = [], clock.now() + within
    for definition in definitions:
        name = definition["metadata"]["name"]
        before = await client.get_or_none(CustomResourceDefinition, name, uncached=True)
        applied = await client.apply(Unstructured.from_tree(definition), field_owner=_FIELD_OWNER, force=True)
        if before is None or before.metadata.resource_version != applied.metadata.resource_version:
            changed.append(name)
    for definition in definitions:
        await _wait_established(client, definition["metadata"]["name"], deadline, clock)
    return changed


async def _wait_established(client: Client, name: str, deadline: float, clock: Clock) -> None:
    while True:
        definition = await client.get(CustomResourceDefinition, name, uncached=True)
        conditions = {condition.type: condition for condition in definition.status.conditions}
        if (established := conditions.get("Established")) is not None and established.status == "True":
            return
        names = conditions.get("NamesAccepted")
        if names is not None and names.status == "False":
            raise NoMatchError(f"the server refuses {name}: {names.message}; delete the other definition, or rename")
        if clock.now() > deadline:
            raise NoMatchError(f"{name} is not served in time; its conditions: {definition.status.conditions}")
        await clock.sleep(_POLL_SECONDS)
