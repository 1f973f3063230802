"""Removes from a cluster what `opsdk deploy` applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import metadata_only
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, key_of, to_dict
from opsdk.apimachinery.status import PropagationPolicy
from opsdk.apimachinery.tree_names import key_of_tree, subject_of_tree
from opsdk.builder.deployed import field_manager
from opsdk.cli.deploy.apply import find_surplus, wait_gone
from opsdk.cli.deploy.permissions import LEFT_IN_NAMESPACE, undeploy_rules
from opsdk.cli.deploy.steps import (
    DeployAction,
    DeployStep,
    is_deployed,
    kind_of_tree,
)
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import MissingPermissionsError, NoMatchError, UsageError
from opsdk.rbac.review import PermissionReviewer, describe_missing
from opsdk.structured_merge.value import JsonObject

_DEFINITION: Final = "CustomResourceDefinition"
# Each namespace has it; kube-controller-manager writes it.
_ROOT_CA: Final = "kube-root-ca.crt"


class Remover:
    """Deletes the objects of an operator that `opsdk deploy` applied, in the reverse order.

    Args:
        cluster: the cluster; no informer is started.
        operator: its name makes the field manager.
        delete_objects: delete the custom objects first, and wait for their finalizers while the operator runs.
        dry_run: write nothing.
        timeout: seconds until everything must be deleted.
        report: gets each step when it happens.
    """

    def __init__(
        self,
        cluster: Cluster,
        operator: str,
        *,
        report: Callable[[DeployStep], None],
        delete_objects: bool = False,
        dry_run: bool = False,
        timeout: float = 300.0,
    ) -> None:
        self._cluster = cluster
        self._client: Client = cluster.uncached
        self._operator = operator
        self._manager = field_manager(operator)
        self._report = report
        self._delete_objects = delete_objects
        self._dry_run = dry_run
        self._timeout = timeout

    async def undeploy(self, objects: Sequence[JsonObject]) -> None:
        """Delete objects in the reverse order of `Deployer.deploy`.

        Raises:
            MissingPermissionsError: the user lacks permissions. Nothing was deleted.
            UsageError: custom objects exist, and `delete_objects` is False. Nothing was deleted.
            DeadlineError: an object is not deleted in time; the message has its finalizers.
            ApiError: the server rejects a deletion.
        """
        deadline = monotonic() + self._timeout
        objects = [*objects, *await find_surplus(self._client, objects)]
        await self._check_permissions(objects)
        live = {key: tree for tree in objects if (key := await self._deployed(tree)) is not None}
        custom = [
            obj for tree in live.values() if tree["kind"] == _DEFINITION for obj in await self._custom_objects(tree)
        ]
        if custom and not self._delete_objects:
            raise UsageError(
                f"{len(custom)} custom objects exist, such as {_subject(custom[0])}, and would be deleted with their "
                "CustomResourceDefinition: pass --delete-objects to delete them first. Nothing was deleted"
            )
        for obj in custom:
            await self._delete(_tree_of(obj))
        for obj in custom if not self._dry_run else ():
            await wait_gone(self._client, _tree_of(obj), deadline)
        for tree in _removal_order(list(live.values())):
            if tree["kind"] == "Namespace" and (remaining := await self._left_in(tree["metadata"]["name"])):
                self._report(
                    DeployStep(subject=subject_of_tree(tree), action=DeployAction.KEPT, reason=f"it has {remaining}")
                )
                continue
            await self._delete(tree)
            if not self._dry_run:
                await wait_gone(self._client, tree, deadline)

    async def _check_permissions(self, objects: Sequence[JsonObject]) -> None:
        needed = undeploy_rules(objects, delete_objects=self._delete_objects)
        missing = await PermissionReviewer(self._cluster.transport, self._cluster.scheme).missing(needed)
        if missing:
            text = describe_missing(missing, f"{self._operator}-deployer")
            raise MissingPermissionsError(f"{text}; nothing was deleted", missing=tuple(map(str, missing)))

    async def _deployed(self, tree: JsonObject) -> str | None:
        """Return the subject of an object that opsdk deploy applied; report the others, and return None."""
        live = await self._client.get_or_none(kind_of_tree(tree), key_of_tree(tree))
        subject = subject_of_tree(tree)
        if live is None:
            self._report(DeployStep(subject=subject, action=DeployAction.MISSING))
            return None
        if not is_deployed(to_dict(live), self._manager):
            self._report(DeployStep(subject=subject, action=DeployAction.KEPT, reason="opsdk deploy did not create it"))
            return None
        return subject

    async def _custom_objects(self, definition: JsonObject) -> list[PartialObjectMetadata]:
        spec = definition["spec"]
        version = next(each["name"] for each in spec["versions"] if each["storage"])
        gvk = GroupVersionKind(spec["group"], version, spec["names"]["kind"])
        try:
            return list(await self._client.list(metadata_only(gvk)))
        except NoMatchError:
            return []  # not established: there are no objects

    async def _left_in(self, namespace: str) -> str:
        """Return what others have in a namespace as text; empty for nothing."""
        subjects = []
        for kind in LEFT_IN_NAMESPACE:
            objects = await self._client.list(metadata_only(GroupVersionKind("", "v1", kind)), namespace=namespace)
            subjects += [_subject(obj) for obj in objects if (kind, obj.metadata.name) != ("ConfigMap", _ROOT_CA)]
        # In a dry run, the objects of the operator are still there.
        if not subjects or self._dry_run:
            return ""
        return subjects[0] if len(subjects) == 1 else f"{subjects[0]} and {len(subjects) - 1} more"

    async def _delete(self, tree: JsonObject) -> None:
        if not self._dry_run:
            # Foreground: a Deployment is gone when its pods are, so the operator has released its Lease.
            foreground: PropagationPolicy | None = "Foreground" if tree["kind"] == "Deployment" else None
            await self._client.delete(kind_of_tree(tree), key_of_tree(tree), propagation=foreground, missing_ok=True)
        self._report(DeployStep(subject=subject_of_tree(tree), action=DeployAction.DELETED, dry_run=self._dry_run))


def _removal_order(objects: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the reverse order, but the Deployment before what it needs, and the namespace after its content."""
    ranks = {_DEFINITION: 3, "Namespace": 2, "Deployment": 0}
    backwards = list(reversed(objects))
    webhooks = [tree for tree in backwards if tree["kind"].endswith("WebhookConfiguration")]
    others = [tree for tree in backwards if tree not in webhooks]
    # Webhook configurations first: without the operator, they reject every request that they match.
    return webhooks + sorted(others, key=lambda tree: ranks.get(tree["kind"], 1))


def _tree_of(obj: PartialObjectMetadata) -> JsonObject:
    key = key_of(obj)
    metadata = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
    return {"apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata}


def _subject(obj: AnyObject) -> str:
    assert isinstance(obj, PartialObjectMetadata)
    return subject_of_tree(_tree_of(obj))
