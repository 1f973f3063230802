"""An operator without webhooks follows the definitions of its kinds, and reports what another writer changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from opsdk import Context, Operator, OperatorOptions
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.cache.options import CacheOptions
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.cluster.options import ClusterOptions
from opsdk.rbac.check import RbacCheck
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import RuleSet
from opsdk.telemetry.records import RegisteredFaults
from opsdk.testing.definitions import install_definitions
from opsdk.testing.running import running
from tests.webhook.boxes import Box
from tests.webhook.certificate_world import RecordingHook

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

CRD = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
NAME = "boxes.demo.opsdk.dev"
OBJECTS = "opsdk.webhook.registered.objects"
Change = Callable[[dict[str, Any]], None]


def make_operator(**options: Any) -> Operator:
    """An operator with one kind and no webhooks."""
    operator = Operator("sites", OperatorOptions(**options))

    @operator.reconciler(Box)
    async def reconcile(box: Box, ctx: Context) -> None:
        """Do nothing."""

    return operator


class Installed:
    """A running operator with its generated roles, and an administrator."""

    def __init__(self, operator: Operator, client: Client) -> None:
        self.operator, self.client, self.hook = operator, client, RecordingHook()

    async def replace(self, change: Change, *, manager: str = "kubectl-replace") -> None:
        """Replace the definition, as ``kubectl replace`` and OLM do."""
        tree = to_dict(await self.client.get(CRD, NAME, uncached=True))
        change(tree)
        await self.client.update(Unstructured.from_tree(tree), field_owner=manager)
        await asyncio.sleep(0.9)

    async def recreate(self, change: Change) -> None:
        """Delete the definition, and create it from a backup."""
        tree = to_dict(await self.client.get(CRD, NAME, uncached=True))
        await self.client.delete(CRD, NAME)
        while await self.client.get_or_none(CRD, NAME, uncached=True) is not None:
            await asyncio.sleep(0.1)
        backup = {"apiVersion": tree["apiVersion"], "kind": tree["kind"], "spec": tree["spec"]}
        change(backup)
        await self.client.create(Unstructured.from_tree({**backup, "metadata": {"name": NAME}}))
        await asyncio.sleep(0.9)

    async def readiness(self) -> str:
        """Why the replica is not ready because of a registered object; empty if it is."""
        return str((await self.operator.manager.readyz.failures()).get("registered-objects", ""))

    def faults(self) -> tuple[int, int]:
        """The critical and the other faults in the metrics."""
        records = [record for record in self.hook.records if isinstance(record, RegisteredFaults)]
        return (records[-1].critical, records[-1].others) if records else (0, 0)


@asynccontextmanager
async def installed(operator: Operator, *, granted: bool = True) -> AsyncIterator[Installed]:
    """The operator in a cluster, with or without the permission to follow its definition."""
    async with environment.Environment(hot_loop_limit=0) as env, Cluster(env.config) as admin:
        run = Installed(operator, admin.uncached)
        await install_definitions(run.client, operator.definitions())
        rules = operator.rules(namespace="default") if granted else operator.required_rules(namespace="default")
        for obj in manifests(RuleSet(rules), RbacNames(name="sites")):
            await run.client.apply(obj, field_owner="kubectl")
        operator.add_hook(run.hook)
        user = env.add_user("system:serviceaccount:default:sites")
        async with running(operator, user.config, definitions=False):
            await asyncio.sleep(2)
            yield run


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """What the follower logged."""
    return [each.getMessage() for each in caplog.records if each.name == OBJECTS and each.levelno >= level]


def without_status(tree: dict[str, Any]) -> None:
    """Remove the subresource."""
    tree["spec"]["versions"][0].pop("subresources")


def without_field(tree: dict[str, Any]) -> None:
    """Remove a field that the class has."""
    del tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]


def unserved(tree: dict[str, Any]) -> None:
    """Serve an older version only."""
    older = {**tree["spec"]["versions"][0], "name": "v1alpha1", "storage": False}
    tree["spec"]["versions"] = [older, {**tree["spec"]["versions"][0], "served": False}]


def cluster_scoped(tree: dict[str, Any]) -> None:
    """Change the scope."""
    tree["spec"]["scope"] = "Cluster"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (without_status, "has no subresource status in v1"),
        (without_field, "has no field spec.size in v1, so the API server drops what the operator writes there"),
        (unserved, "does not serve v1"),
    ],
)
async def test_a_replaced_definition_is_reported_once(
    change: Change, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line, a metric, and its end; the replica stays ready, and the definition stays as it is."""
    async with installed(make_operator()) as run:
        assert logged(caplog) == []
        before = to_dict(await run.client.get(CRD, NAME))["spec"]
        await run.replace(change, manager="olm")
        await asyncio.sleep(600)
        (line,) = logged(caplog)
        assert line.startswith(f"CustomResourceDefinition {NAME} {text}: apply the CustomResourceDefinition")
        assert (run.faults(), await run.readiness()) == ((0, 1), "")
        await run.replace(lambda tree: tree.update(spec=before))
        assert (run.faults(), len(logged(caplog))) == ((0, 0), 1)


async def test_a_definition_of_a_backup_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """After a deletion and a restore, what the backup lacks is reported; the restored scope too."""
    async with installed(make_operator()) as run:
        await run.recreate(cluster_scoped)
        assert [line.partition(":")[0] for line in logged(caplog)] == [
            f"CustomResourceDefinition {NAME} does not exist",
            f"CustomResourceDefinition {NAME} has the scope Cluster, not Namespaced",
        ]
        assert run.faults() == (0, 1)


@pytest.mark.parametrize("check", list(RbacCheck))
async def test_without_the_permission_it_is_not_followed(check: RbacCheck, caplog: pytest.LogCaptureFixture) -> None:
    """A role of an older version gives one debug line: no warning, no failing start, no missing permission."""
    caplog.set_level(logging.DEBUG, logger=OBJECTS)
    async with installed(make_operator(rbac_check=check), granted=False) as run:
        await run.replace(without_status)
        await asyncio.sleep(3600)
        (line,) = [each.getMessage() for each in caplog.records if "customresourcedefinitions" in each.getMessage()]
        assert f"{NAME} is not followed" in line
        assert (run.faults(), await run.readiness()) == ((0, 0), "")


def test_the_role_grants_what_following_needs() -> None:
    """Reads of the definitions by name; an operator of some namespaces needs no ClusterRole for them."""
    operator = make_operator()
    followed = operator.rules() - operator.required_rules()
    assert sorted(map(str, followed)) == [
        f'{verb} customresourcedefinitions.apiextensions.k8s.io named "{NAME}"' for verb in ("get", "list", "watch")
    ]
    options = ClusterOptions(cache=CacheOptions(namespaces=["shop"]))
    operator.options = replace(operator.options, cluster=options)
    assert not [rule for rule in operator.rules() if rule.resource == "customresourcedefinitions"]
