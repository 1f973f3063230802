"""The chain calls a plugin only for its resources."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.chain import Chain
from opsdk.apiserver.admission.plugin import Plugin, resource_path
from opsdk.apiserver.resources import InstalledResource, ResourceInfo

NAMES = ("NamespaceLifecycle", "LimitRanger", "Priority", "ResourceQuota")
PATHS = ("pods", "pods/status", "apps/deployments", "apps/deployments/scale")
PLUGINS = st.dictionaries(st.sampled_from(NAMES), st.none() | st.sets(st.sampled_from(PATHS)))


class Recorder(Plugin):
    """Records its name for each call."""

    def __init__(self, name: str, resources: Collection[str] | None, calls: list[str]) -> None:
        self.resources = resources
        self._name, self._calls = name, calls

    async def validate(self, attributes: Attributes) -> None:
        """Record the call."""
        self._calls.append(self._name)


def request(path: str) -> Any:
    """Return the attributes of a request for a resource."""
    group, _, rest = path.partition("/") if path.startswith("apps/") else ("", "", path)
    resource, _, subresource = rest.partition("/")
    info = ResourceInfo(
        group=group, version="v1", resource=resource, kind="K", namespaced=True, subresource=subresource
    )
    assert resource_path(info) == path
    return SimpleNamespace(
        served=InstalledResource(info, None, None),  # type: ignore[arg-type]
        reinvoke=False,
        is_reinvoke=False,
        operation="CREATE",
    )


@given(PLUGINS, PLUGINS)
def test_a_plugin_is_called_for_its_resources_in_its_place(
    plugins: dict[str, set[str] | None], later: dict[str, set[str] | None]
) -> None:
    """A plugin is called for its resources, or for all; added and removed plugins take effect at once."""
    asyncio.run(_assert_calls(plugins, later))


async def _assert_calls(plugins: dict[str, set[str] | None], later: dict[str, set[str] | None]) -> None:
    chain, calls = Chain(), list[str]()
    for added in (plugins, later):
        for name in NAMES:
            chain.remove(name)
        for name, resources in added.items():
            chain.add(name, Recorder(name, resources, calls))
        for path in PATHS:
            calls.clear()
            await chain.mutate(request(path))
            await chain.validate(request(path))
            expected = {name for name, resources in added.items() if resources is None or path in resources}
            assert calls == [name for name in NAMES if name in expected]
