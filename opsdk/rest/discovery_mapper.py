"""Discovery results as RESTMappings."""

from __future__ import annotations

from opsdk.apimachinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.rest_mapper import RestMapping, ServedResource
from opsdk.errors import UsageError
from opsdk.rest.discovery import DiscoveredGroups, Discovery


class RestDiscoverySource:
    """A `DiscoverySource` over `Discovery`."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    async def fetch(self) -> ServedResource:
        """Run discovery."""
        return served_resources(await self._discovery.fetch())


def served_resources(discovered: DiscoveredGroups) -> ServedResource:
    """Convert discovery results to mappings. Pure."""
    failures: dict[GroupVersion, str] = {}
    for where, error in discovered.failures.items():
        try:
            failures[GroupVersion.parse(where)] = str(error)
        except UsageError:
            failures[GroupVersion(where, "")] = str(error)
    mappings = [
        RestMapping(
            gvk=GroupVersionKind(resource.group, resource.version, resource.kind),
            resource=GroupVersionResource(resource.group, resource.version, resource.plural),
            namespaced=resource.namespaced,
            singular=resource.singular,
            verbs=frozenset(resource.verbs),
            short_names=tuple(resource.short_names),
            categories=tuple(resource.categories),
            subresources=frozenset(resource.subresources),
        )
        for resource in discovered.resources
    ]
    return ServedResource(mappings=mappings, failures=failures)
