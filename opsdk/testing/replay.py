"""Replays one reconcile of the journal against a server that has the objects it read.

::

    record = next(operator.journal.find(name="site"))
    Path("tests/test_replay.py").write_text(export_test(record, operator="website.operator:make_operator"))

The test creates the objects in an empty server. Secrets are
redacted, and objects that the journal did not keep are missing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.plurals import pluralize
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.controller.journal import ReconcileRecord
from opsdk.controller.journal_format import record_from_json, record_to_json
from opsdk.engine.masking import DELETION, SERVER_SET, without_metadata
from opsdk.errors import AlreadyExistsError, ApiError, NoMatchError, UsageError
from opsdk.event.request import Request
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.references import OperatorReference

__all__ = ["differences", "export_test", "load_record", "replay"]

# Metadata with uids of other objects.
_LINKED = ("ownerReferences", "managedFields")
_NOT_CREATED = SERVER_SET | DELETION | {*_LINKED}


def load_record(text: str) -> ReconcileRecord:
    """Return the record of an exported test."""
    return record_from_json(json.loads(text))


def export_test(record: ReconcileRecord, *, operator: str) -> str:
    """Return the source of a test that replays `record`.

    Args:
        record: with the objects that were read, see `Journal`.
        operator: the location of the operator, as ``module:attribute``: an `Operator`, or a function that returns one.

    Raises:
        UsageError: `operator` has another form, or the record no longer has its objects.
    """
    reference = OperatorReference.parse(operator)
    if any(read.resource_version and read.data is None for read in record.reads):
        raise UsageError(
            f"the objects that reconcile {record.reconcile_id} read are missing: choose a later one, and start the "
            "operator with --debug-objects"
        )
    key = ObjectKey(record.namespace, record.name)
    text = json.dumps(record_to_json(record, objects=True), indent=1)
    return f'''"""Replays the reconcile of {record.controller} {key} at {record.started_at.isoformat()}."""

import envtest
{reference.import_line}
from opsdk import Operator
from opsdk.testing.replay import differences, load_record, replay

RECORD = r"""
{text}
"""


async def test_replay() -> None:
    """The reconcile reads the same objects, sends the same requests, and ends in the same way."""
    record = load_record(RECORD)
    operator = {reference.expression}
    async with envtest.Environment() as env:
        assert differences(record, await replay(record, operator, env.config)) == []
'''


def differences(recorded: ReconcileRecord, replayed: ReconcileRecord) -> list[str]:
    """Return how two reconciles differ: result, and requests by verb, kind, key and subresource, in order."""
    lines = []
    if recorded.result != replayed.result:
        lines.append(f"result: {recorded.result} ({recorded.detail}) -> {replayed.result} ({replayed.detail})")
    before, after = (
        [f"{request.verb} {request.gvk} {request.key} {request.subresource}".rstrip() for request in record.requests]
        for record in (recorded, replayed)
    )
    if before != after:
        lines += [f"not sent: {line}" for line in before if line not in after]
        lines += [f"sent in addition: {line}" for line in after if line not in before]
        if len(lines) == (recorded.result != replayed.result):
            lines.append(f"order: {before} -> {after}")
    return lines


async def replay(record: ReconcileRecord, operator: Operator, config: RestConfig) -> ReconcileRecord:
    """Create the objects that `record` read, reconcile its request once, and return what the reconcile did.

    Args:
        record: see `export_test`.
        operator: not started; this prepares it.
        config: of the test's server.

    Raises:
        UsageError: the operator has no controller of the record's name.
    """
    async with Cluster(config) as outside:
        await _restore(record, operator, outside.uncached)
    operator.prepare(config)
    controller = operator.controllers.get(record.controller)
    if controller is None:
        raise UsageError(f"{operator!r} has no controller {record.controller}, only {', '.join(operator.controllers)}")
    running = asyncio.create_task(operator.cluster.start(), name="replay/cluster")
    try:
        await operator.cluster.wait_ready()
        return await controller.reconcile_once(Request(record.namespace, record.name), causes=record.causes)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await operator.cluster.aclose()


async def _restore(record: ReconcileRecord, operator: Operator, client: Client) -> None:
    """Create the objects that the reconcile read, with their owners, managed fields and deletions.

    Of several versions of an object, the first counts: the later ones follow writes of the reconcile, or of others.
    """
    for kind in operator.custom_kinds():
        await _create(client, crd_for(kind))
    uids: dict[str, str] = {}
    restored: dict[tuple[str, str], tuple[JsonObject, Unstructured]] = {}
    for read in record.reads:
        if read.data is None or (read.gvk, read.key) in restored:
            continue
        tree = msgspec.json.decode(read.data)
        if tree["metadata"].get("namespace"):
            await _create(
                client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tree["metadata"]["namespace"]}}
            )
        obj = await _restore_object(client, tree)
        uids[tree["metadata"].get("uid", "")] = obj.metadata.uid
        restored[read.gvk, read.key] = tree, obj
    for tree, obj in restored.values():
        # Send the writes in sequence: an update takes over the fields that it changes. A write that sends
        # managedFields and changes nothing else sets them.
        for name in _LINKED:
            if name in tree["metadata"]:
                metadata = _with_new_uids({name: tree["metadata"][name]}, uids)
                await client.patch(obj, merge_patch({"metadata": metadata}))
        if tree["metadata"].get("deletionTimestamp"):
            await client.delete(obj)


def _with_new_uids(tree: JsonObject, uids: Mapping[str, str]) -> JsonObject:
    """Return owner references and field managers with the uids of the new server."""
    text = json.dumps(tree)
    for old, new in uids.items():
        if old:
            text = text.replace(old, new)
    result: JsonObject = json.loads(text)
    return result


async def _restore_object(client: Client, tree: JsonObject) -> Unstructured:
    """Create an object with its status."""
    content = without_metadata(tree, _NOT_CREATED)
    try:
        obj = await _create(client, content)
    except NoMatchError:
        await _create(client, _permissive_crd(tree))
        obj = await _create(client, content)
    if status := tree.get("status"):
        if "observedGeneration" in status:
            # The new object has another generation: keep how far the status is behind.
            behind = tree["metadata"].get("generation", 0) - status["observedGeneration"]
            status = {**status, "observedGeneration": max(obj.metadata.generation - behind, 0)}
        try:
            await client.status().patch(obj, merge_patch({"status": status}))
        except ApiError as error:
            if error.code not in (404, 405):  # a kind without a status subresource
                raise
    return obj


async def _create(client: Client, tree: Mapping[str, Any]) -> Unstructured:
    """Create an object, or return the one that exists."""
    obj = Unstructured.from_tree(dict(tree))
    try:
        return await client.create(obj)
    except AlreadyExistsError:
        await client.patch(obj, merge_patch({k: v for k, v in tree.items() if k != "status"}))
        return obj


def _permissive_crd(tree: JsonObject) -> JsonObject:
    """Return a definition for a kind that the operator has no class for. It accepts every field."""
    gvk = GroupVersionKind.parse(tree["apiVersion"], tree["kind"])
    plural = pluralize(gvk.kind.lower())
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": gvk.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{gvk.group}"},
        "spec": {
            "group": gvk.group,
            "names": {"kind": gvk.kind, "plural": plural},
            "scope": "Namespaced" if tree["metadata"].get("namespace") else "Cluster",
            "versions": [version],
        },
    }
