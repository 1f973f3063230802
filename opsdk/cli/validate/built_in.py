"""Validates objects of built-in kinds by dry runs against envtest's API server, in this process."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.object import Unstructured
from opsdk.apiserver.validation import FieldProblem, metadata_problems
from opsdk.children.kinds import built_in_kind
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.environments import import_envtest, kind_of_versions
from opsdk.errors import AlreadyExistsError, ApiError
from opsdk.structured_merge.value import JsonObject

# They look for other objects, which a file need not have.
_PLUGINS: Final = ("ServiceAccount", "Priority", "PersistentVolumeClaimResize")
_PARALLEL: Final = 8
"""Requests that wait beside each other: the server answers some, such as those of a terminating kind, after a while."""
_UNKNOWN: Final = re.compile(r'(?:unknown|duplicate) field "([^"]+)"')


def gvk_of(tree: JsonObject) -> GroupVersionKind:
    """Return the kind of an object."""
    return GroupVersionKind.parse(tree["apiVersion"], tree["kind"])


def is_built_in(gvk: GroupVersionKind) -> bool:
    """Whether Kubernetes has a kind: in any version, or without envtest in the default one."""
    return built_in_kind(gvk) is not None or (can_validate() and kind_of_versions(gvk) is not None)


def can_validate() -> bool:
    """Whether envtest is installed. It is not imported."""
    return importlib.util.find_spec("envtest") is not None


async def built_in_problems(
    trees: Sequence[tuple[JsonObject, JsonObject | None]], *, kubernetes: str, progress: Callable[[int], None]
) -> list[list[FieldProblem]]:
    """Return the errors of each object.

    Args:
        trees: each object as it would be sent, and the object before an update; None for a create.
        kubernetes: the version that validates.
        progress: gets the number of objects that are checked, after each one.
    """
    envtest = import_envtest("objects are checked")
    environment = envtest.Environment(disable_admission_plugins=_PLUGINS, kubernetes=kubernetes)
    async with environment as env, Cluster(env.config) as cluster:
        turns, names = asyncio.Semaphore(_PARALLEL), asyncio.Lock()
        checked = 0

        async def check(tree: JsonObject, old: JsonObject | None) -> list[FieldProblem]:
            nonlocal checked
            # Objects before an update are stored, and all are in one namespace.
            async with turns, nullcontext() if old is None else names:
                problems = await _problems(cluster.uncached, tree, old, kubernetes)
            checked += 1
            progress(checked)
            return problems

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(check(tree, old)) for tree, old in trees]
        return [task.result() for task in tasks]


def _unserved(tree: JsonObject, kubernetes: str) -> list[FieldProblem]:
    """Return that a version of Kubernetes lacks the kind, if it does."""
    kind = kind_of_versions(gvk_of(tree))
    if kind is None or kubernetes in kind.versions:
        return []
    message = f"Kubernetes {kubernetes} does not serve this kind; it is in {', '.join(kind.versions)}"
    return [FieldProblem(field="apiVersion", message=message)]


async def _problems(client: Client, tree: JsonObject, old: JsonObject | None, kubernetes: str) -> list[FieldProblem]:
    if unserved := _unserved(tree, kubernetes):
        return unserved
    for metadata in (tree.get("metadata"), None if old is None else old.get("metadata")):
        # Without metadata the server answers for itself; the client cannot send what it cannot decode.
        if metadata is not None and (problems := list(metadata_problems(metadata))):
            return problems
    try:
        if old is None:
            await client.create(_local(tree), dry_run=True, field_validation="Strict")
        else:
            before = await client.create(_local(old))
            try:
                updated = _local(tree)
                updated.metadata.resource_version = before.metadata.resource_version
                await client.update(updated, dry_run=True, field_validation="Strict")
            finally:
                await client.delete(before, missing_ok=True)
    except AlreadyExistsError:
        return []  # the server validates before it stores
    except ApiError as error:
        return _of_error(error)
    return []


def _local(tree: JsonObject) -> Unstructured:
    """Return the object in the namespace ``default``, which exists."""
    built_in = kind_of_versions(gvk_of(tree))
    metadata = tree.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    if built_in is not None and built_in.namespaced:
        metadata["namespace"] = "default"
    return Unstructured.from_tree({**tree, "metadata": metadata})


def _of_error(error: ApiError) -> list[FieldProblem]:
    if error.details.causes:
        return [FieldProblem(field=cause.field, message=cause.message) for cause in error.details.causes]
    if unknown := _UNKNOWN.findall(error.message):
        return [FieldProblem(field=path, message="unknown field") for path in unknown]
    return [FieldProblem(field="", message=error.message)]
