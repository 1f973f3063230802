"""Schemas that follow the CustomResourceDefinitions of a cluster.

Upstream: github.com/rancher/steve/pkg/controllers/schema/schemas.go
Deviates: each definition is imported when it changes; steve reads all schemas again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import msgspec

from opsdk.aio.large_work import LARGE_BYTES, compute
from opsdk.aio.tasks import TaskOwner
from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.cache.store import Delta
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UsageError
from opsdk.norman.importing.definitions import DefinitionImport, import_definition, remove_definition
from opsdk.norman.importing.registration import Customize
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion
from opsdk.structured_merge.value import JsonObject

__all__ = ["DefinitionFollower", "follow_definitions"]

log = logging.getLogger("opsdk.norman")

Select = Callable[[JsonObject], ApiVersion | None]
"""Returns the version that a definition is imported into, or None to skip it."""


@dataclass(slots=True, kw_only=True)
class DefinitionFollower:
    """Imports, replaces and removes the schemas of definitions, as a cache reports them.

    A definition has schemas while the server serves its kind (condition Established) and `select` returns a version.

    Attributes:
        registry: gets the schemas.
        select: returns the version of a definition.
        schema_id: returns the id of the schema of a definition; an empty string for the default.
        customize: gets the schema of each kind after each import.
        errors: name of a definition -> the error of its last import. Its previous schemas are kept.
    """

    registry: SchemaRegistry
    select: Select
    schema_id: Callable[[JsonObject], str] = lambda definition: ""  # noqa: ARG005 - the default
    customize: Customize | None = None
    errors: dict[str, UsageError] = field(default_factory=dict, init=False)
    _versions: dict[str, ApiVersion] = field(default_factory=dict, init=False, repr=False)

    def on_delta(self, delta: Delta) -> None:
        """Handle a change of the cache."""
        if delta.new is None:
            self.remove(delta.entry.key.name)
        else:
            self.apply(msgspec.json.decode(delta.new.data))

    def apply(self, definition: JsonObject) -> None:
        """Import or replace the schemas of a definition; remove them if it is not served or not selected."""
        if (version := self._begin(definition)) is None:
            return
        with self._noting(definition, version):
            import_definition(self.registry, version, definition, self.customize, schema_id=self.schema_id(definition))

    def _begin(self, definition: JsonObject) -> ApiVersion | None:
        """Return the version to import a definition into. Remove the schemas that it has in another one."""
        name: str = definition["metadata"]["name"]
        version = self.select(definition) if _is_established(definition) else None
        if self._versions.get(name) not in (None, version):
            self.remove(name)
        return version

    @contextmanager
    def _noting(self, definition: JsonObject, version: ApiVersion) -> Iterator[None]:
        """Keep the result of an import by the name of its definition."""
        name: str = definition["metadata"]["name"]
        try:
            yield
        except UsageError as error:
            self.errors[name] = error
            log.warning("cannot import the CustomResourceDefinition %s: %s", name, error)
        else:
            self.errors.pop(name, None)
            self._versions[name] = version

    def remove(self, name: str) -> None:
        """Remove the schemas of a definition. Unknown names are ignored."""
        self.errors.pop(name, None)
        if (version := self._versions.pop(name, None)) is not None:
            remove_definition(self.registry, version, name)


class QueuedFollower(DefinitionFollower):
    """Handles small changes at once, unless others wait, and imports a large definition in parts.

    The changes behind it wait: so their order is that of the cache.
    """

    def __init__(self, tasks: TaskOwner, registry: SchemaRegistry, select: Select) -> None:
        super().__init__(registry=registry, select=select)
        self._tasks = tasks
        self._waiting: deque[Delta] = deque()
        self._running: asyncio.Task[None] | None = None

    def on_delta(self, delta: Delta) -> None:
        is_large = delta.new is not None and len(delta.new.data) > LARGE_BYTES
        if not is_large and not self._waiting:
            super().on_delta(delta)
            return
        self._waiting.append(delta)
        if self._running is None or self._running.done():
            self._running = self._tasks.start(self._run(), name="import")

    async def wait_empty(self) -> None:
        """Return when all changes are handled."""
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def apply_in_parts(self, definition: JsonObject) -> None:
        """Do the same as `apply` for a large definition: the event loop serves others in the meantime."""
        if (version := self._begin(definition)) is None:
            return
        schema_id = self.schema_id(definition)
        with self._noting(definition, version):
            importing = DefinitionImport(self.registry, version, definition, schema_id=schema_id)
            await importing.run_in_parts(self.customize)

    async def _run(self) -> None:
        while self._waiting:
            delta = self._waiting[0]
            try:
                if delta.new is None:
                    super().on_delta(delta)
                else:
                    data = delta.new.data
                    await self.apply_in_parts(await compute(len(data), msgspec.json.decode, data))
            except Exception:  # a callback of the program failed: the other definitions are imported
                log.exception("cannot import the CustomResourceDefinition %s", delta.entry.key.name)
            self._waiting.popleft()


@asynccontextmanager
async def follow_definitions(
    registry: SchemaRegistry,
    cluster: Cluster,
    select: ApiVersion | Select,
    customize: Customize | None = None,
    *,
    schema_id: Callable[[JsonObject], str] = lambda definition: "",  # noqa: ARG005 - the default
) -> AsyncIterator[DefinitionFollower]:
    """Import the definitions of a cluster, and follow their changes until the block ends. The schemas are kept.

    ::

        async with follow_definitions(schemas, cluster, ApiVersion(version="v1", path="/v1")):
            ...

    Args:
        registry: gets the schemas.
        cluster: its cache is used; the block begins when the cache runs and has all definitions.
        select: the version for all definitions, or a function that returns it.
        customize: gets the schema of each kind after each import.
        schema_id: returns the id of the schema of a definition; an empty string for the default.

    Raises:
        OpsdkError: the server does not serve definitions.
    """
    choose = (lambda definition: select) if isinstance(select, ApiVersion) else select  # noqa: ARG005 - as typed
    definitions = await cluster.cache.informer_for(CustomResourceDefinition)
    async with TaskOwner("definitions") as tasks:
        follower = QueuedFollower(tasks, registry, choose)
        follower.customize, follower.schema_id = customize, schema_id
        registration = definitions.add_handler(follower.on_delta)
        try:
            await registration.wait_synced()
            await follower.wait_empty()
            yield follower
        finally:
            registration.remove()


def _is_established(definition: JsonObject) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)
