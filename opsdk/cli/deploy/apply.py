"""Applies an installation to a cluster, and waits until it works."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.apimachinery.tree_names import key_of_tree, subject_of_tree
from opsdk.builder.deployed import field_manager, labelled
from opsdk.cli.deploy.diagnosis import certificate_problems, deployment_problems
from opsdk.cli.deploy.permissions import delete_rules, deploy_rules, grant_rules
from opsdk.cli.deploy.steps import (
    DeployAction,
    DeployStep,
    changes_of,
    is_deployed,
    kind_of_tree,
    other_manager,
    surplus_objects,
    with_record,
)
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ApiError, ConflictError, DeadlineError, ForbiddenError, MissingPermissionsError, UsageError
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.review import PermissionReviewer, describe_missing
from opsdk.recipes.definitions import wait_established
from opsdk.recipes.summaries import SummaryState, tree_summary
from opsdk.structured_merge.value import JsonObject

Report = Callable[[str], None]
"""Gets each line of progress."""

POLL_SECONDS: Final = 0.5
# Seconds for which a Deployment must be failed: its status may still be that of an earlier attempt.
_FAILED_SECONDS: Final = 30.0
_DEFINITION: Final = "CustomResourceDefinition"


class Deployer:
    """Applies the objects of an operator, each with one server-side apply.

    Args:
        cluster: the cluster; no informer is started.
        operator: its name makes the field manager.
        force: take over objects and fields of other field managers.
        dry_run: the server validates the applies and writes nothing.
        timeout: seconds until everything must be available.
        report: gets each step when it happens.
    """

    def __init__(
        self,
        cluster: Cluster,
        operator: str,
        *,
        report: Callable[[DeployStep], None],
        progress: Report,
        force: bool = False,
        dry_run: bool = False,
        timeout: float = 300.0,
    ) -> None:
        self._cluster = cluster
        self._client: Client = cluster.uncached
        self._operator = operator
        self._manager = field_manager(operator)
        self._report, self._progress = report, progress
        self._force, self._dry_run = force, dry_run
        self._timeout = timeout
        self._new_namespaces: set[str] = set()

    async def deploy(self, objects: Sequence[JsonObject], rules: RuleSet) -> list[str]:
        """Apply objects in their order, and wait for CustomResourceDefinitions and the Deployment.

        Then delete what an earlier deployment applied and this one does not have, such as an unused ClusterRole.

        Args:
            objects: definitions first, as `installed_objects` returns them.
            rules: of the operator's service account; who grants them must have them, or ``escalate`` and ``bind``.

        Returns:
            Why the installation does not work; empty if it does.

        Raises:
            MissingPermissionsError: the user lacks permissions. Nothing was written.
            UsageError: an object exists that opsdk deploy did not create, and `force` is False.
            ConflictError: a field belongs to another field manager, and `force` is False.
            NoMatchError: the server rejects the names of a definition.
            DeadlineError: a definition is not established in time.
            ApiError: the server rejects an object.
        """
        deadline = monotonic() + self._timeout
        main = next(tree for tree in objects if tree["kind"] == "Deployment")
        surplus = await find_surplus(self._client, objects)
        await self._check_permissions(objects, rules, surplus)
        definitions = [tree for tree in objects if tree["kind"] == _DEFINITION]
        for tree in definitions:
            await self._apply(tree)
        if definitions and not self._dry_run:
            names = [tree["metadata"]["name"] for tree in definitions]
            remaining = deadline - monotonic()
            await wait_established(self._client, names, within=remaining, poll_interval=POLL_SECONDS)
        for tree in objects:
            if tree["kind"] != _DEFINITION:
                await self._apply(with_record(tree, [*objects, *surplus]) if tree is main else tree)
        problems = [] if self._dry_run else await self._wait_available(objects, deadline)
        if surplus and not problems:
            await self._prune(surplus)
            await self._send(with_record(main, objects), subject_of_tree(main))
        return problems

    # -------------------------------------------------------------- surplus
    async def _prune(self, surplus: Sequence[JsonObject]) -> None:
        for tree in surplus:
            live = await self._client.get_or_none(kind_of_tree(tree), key_of_tree(tree))
            if live is None or not is_deployed(to_dict(live), self._manager):
                continue
            if not self._dry_run:
                await self._client.delete(live, missing_ok=True)
            self._report(DeployStep(subject=subject_of_tree(tree), action=DeployAction.DELETED, dry_run=self._dry_run))

    # -------------------------------------------------------------- permissions
    async def _check_permissions(
        self, objects: Sequence[JsonObject], rules: RuleSet, surplus: Sequence[JsonObject]
    ) -> None:
        """Name all missing permissions at once, before the first write. Raises `MissingPermissionsError`."""
        needed = deploy_rules(objects) | delete_rules(surplus)
        reviewer = PermissionReviewer(self._cluster.transport, self._cluster.scheme)
        try:
            missing = await reviewer.missing(needed)
            if await reviewer.missing(rules):
                missing |= await reviewer.missing(grant_rules(objects))
        except ApiError as error:
            self._progress(f"the permissions of this user cannot be reviewed: {error}")
            return
        if missing:
            text = describe_missing(missing, f"{self._operator}-deployer")
            raise MissingPermissionsError(
                f"{text}; nothing was written. opsdk deploy --print-role prints the roles",
                missing=tuple(map(str, missing)),
            )

    # -------------------------------------------------------------- writes
    async def _apply(self, tree: JsonObject) -> None:
        """Apply one object, and report the step."""
        subject = subject_of_tree(tree)
        live = await self._client.get_or_none(kind_of_tree(tree), key_of_tree(tree))
        before = to_dict(live) if live is not None else None
        if before is not None and not is_deployed(before, self._manager):
            if tree["kind"] == "Namespace":
                # Not even with `force`: undeploy would delete what others have in it.
                self._report(DeployStep(subject=subject, action=DeployAction.KEPT, reason="it exists already"))
                return
            if not self._force:
                raise UsageError(
                    f"{subject} exists, and opsdk deploy did not create it (field manager {other_manager(before)}): "
                    "pass --force to take it over; opsdk undeploy will then delete it"
                )
        if self._dry_run and before is None and tree["metadata"].get("namespace") in self._new_namespaces:
            # The server cannot validate an object in a namespace that the dry run did not create.
            self._report(DeployStep(subject=subject, action=DeployAction.CREATED, dry_run=True))
            return
        if tree["kind"] == "Namespace" and before is None:
            self._new_namespaces.add(tree["metadata"]["name"])
        after = to_dict(await self._send(tree, subject))
        changes = changes_of(before, after) if before is not None else ()
        action = DeployAction.CREATED if before is None else DeployAction.CHANGED if changes else DeployAction.UNCHANGED
        self._report(DeployStep(subject=subject, action=action, changes=changes, dry_run=self._dry_run))

    async def _send(self, tree: JsonObject, subject: str) -> Unstructured:
        try:
            return await self._client.apply(
                Unstructured.from_tree(labelled(tree)),
                field_owner=self._manager,
                force=self._force,
                dry_run=self._dry_run,
            )
        except ConflictError as error:
            error.add_note(f"{subject}: pass --force to take the fields over")
            raise
        except ForbiddenError as error:
            error.add_note(f"{subject}: opsdk deploy --print-role prints the permissions of the deploying user")
            raise

    # -------------------------------------------------------------- waiting
    async def _wait_available(self, objects: Sequence[JsonObject], deadline: float) -> list[str]:
        """Return why Deployments are not available, or webhooks have no certificate, at the deadline."""
        deployments = [tree for tree in objects if tree["kind"] == "Deployment"]
        called = [tree for tree in objects if tree["kind"].endswith("WebhookConfiguration") or _is_converted(tree)]
        reported, failed_at = "", math.inf
        while True:
            pending, failed = [], False
            for tree in deployments:
                state = tree_summary(await self._read(tree))
                failed |= state.state is SummaryState.FAILED
                if state.state is not SummaryState.CURRENT:
                    pending.append(f"{subject_of_tree(tree)}: {state.message}")
            if not pending:
                pending = certificate_problems([await self._read(tree) for tree in called])
            if not pending:
                return []
            failed_at = min(failed_at, monotonic()) if failed else math.inf
            if monotonic() >= min(deadline, failed_at + _FAILED_SECONDS):
                return await self._explain(deployments, called)
            if pending[0] != reported:
                reported = pending[0]
                self._progress(f"waiting: {reported}")
            await asyncio.sleep(POLL_SECONDS)

    async def _read(self, tree: JsonObject) -> JsonObject:
        return to_dict(await self._client.get(kind_of_tree(tree), key_of_tree(tree)))

    async def _explain(self, deployments: Sequence[JsonObject], called: Sequence[JsonObject]) -> list[str]:
        problems = []
        for tree in deployments:
            live = await self._read(tree)
            if tree_summary(live).state is SummaryState.CURRENT:
                continue
            namespace = tree["metadata"]["namespace"]
            try:
                replica_sets = await self._list("apps/v1", "ReplicaSet", namespace)
                pods = await self._list("v1", "Pod", namespace)
            except ApiError as error:
                problems.append(f"the pods of {subject_of_tree(tree)} cannot be read: {error}")
                replica_sets, pods = [], []
            problems += deployment_problems(live, replica_sets, pods)
        return problems + certificate_problems([await self._read(tree) for tree in called])

    async def _list(self, api_version: str, kind: str, namespace: str) -> list[JsonObject]:
        return [
            to_dict(each) for each in await self._client.list(unstructured_kind(api_version, kind), namespace=namespace)
        ]


def _is_converted(tree: JsonObject) -> bool:
    return tree["kind"] == _DEFINITION and "conversion" in tree["spec"]


async def find_surplus(client: Client, objects: Sequence[JsonObject]) -> list[JsonObject]:
    """Return what an earlier deployment applied, and `objects` does not have; empty if the user may not read it."""
    main = next(tree for tree in objects if tree["kind"] == "Deployment")
    try:
        live = await client.get_or_none(kind_of_tree(main), key_of_tree(main))
    except ForbiddenError:
        return []  # the check of the permissions names it
    return surplus_objects(to_dict(live), objects) if live is not None else []


async def wait_gone(client: Client, tree: JsonObject, deadline: float) -> None:
    """Return when an object is deleted. Raises `DeadlineError` with the finalizers that it waits for."""
    while (live := await client.get_or_none(kind_of_tree(tree), key_of_tree(tree))) is not None:
        if monotonic() >= deadline:
            message = tree_summary(to_dict(live)).message or "it is not deleted"
            raise DeadlineError(f"{subject_of_tree(tree)} still exists at the end of --timeout: {message}")
        await asyncio.sleep(POLL_SECONDS)
