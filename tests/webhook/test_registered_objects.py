"""What real upgrades do to the objects that an operator registered, and what the operator then does."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from webhook_reviews import OldSite, OldSiteSpec, Site, SiteSpec

from opsdk import Context, Operator, OperatorOptions
from opsdk.aio.clock import monotonic, utc_now
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.client.client import Client
from opsdk.client.patch import json_patch
from opsdk.cluster.cluster import Cluster
from opsdk.http.server.serving_certificate import self_signed_context
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import RuleSet
from opsdk.telemetry.records import RegisteredFaults
from opsdk.testing.definitions import install_definitions
from opsdk.testing.running import running
from opsdk.webhook.certificates.issuing import create_authority
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.configurations import conversion_stanza
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.options import WebhookServerOptions
from tests.webhook.certificate_world import RecordingHook

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

CRD = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
CONFIGURATION = unstructured_kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
DEFINITIONS = "customresourcedefinitions"
NAME = "sites.demo.opsdk.dev"
OBJECTS = "opsdk.webhook.registered"
CERTIFICATES = SelfSigned(service="hooks", namespace="default")


def validate(site: Site, ctx: AdmissionContext) -> Sequence[str]:
    """Accept everything."""
    return []


def make_operator(certificates: SelfSigned | None = CERTIFICATES) -> Operator:
    """An operator with a converter and a validator."""
    tls = None if certificates is not None else partial(self_signed_context, "localhost")
    webhook = WebhookServerOptions(host="127.0.0.1", port=0, certificates=certificates, tls=tls)
    operator = Operator("sites", OperatorOptions(webhook=webhook))

    @operator.reconciler(Site)
    async def reconcile(site: Site, ctx: Context) -> None:
        """Do nothing."""

    converter = HubSpokeConverter(
        Site,
        Spoke(
            OldSite,
            lambda old: Site(metadata=old.metadata, spec=SiteSpec(image=old.spec.image)),
            lambda new: OldSite(metadata=new.metadata, spec=OldSiteSpec(image=new.spec.image)),
        ),
    )
    operator.webhook_for(Site).with_validator(create=validate).with_converter(converter)
    return operator


class Installation:
    """An operator that runs on a server with its generated roles, and an administrator."""

    def __init__(self, env: Any, operator: Operator, client: Client) -> None:
        self.env, self.operator, self.client, self.hook = env, operator, client, RecordingHook()
        ca_bundle = create_authority(utc_now(), 1000).cert if operator.options.webhook.certificates is None else b""
        self.client_config = replace(CERTIFICATES.client_config(), ca_bundle=ca_bundle)

    async def install(self, *, without: str) -> None:
        """Apply definitions and roles; a verb for definitions may be missing."""
        await install_definitions(self.client, self.operator.definitions(self.client_config))
        rules = self.operator.rules(namespace="default")
        granted = [each for each in rules if (each.verb, each.resource) != (without, DEFINITIONS)]
        for obj in manifests(RuleSet(granted), RbacNames(name="sites")):
            await self.client.apply(obj, field_owner="kubectl")

    async def configure(self) -> None:
        """Apply the webhook configurations."""
        for tree in self.operator.webhook_configurations(self.client_config):
            await self.client.create(Unstructured.from_tree(tree))

    async def definition(self) -> dict[str, Any]:
        """The definition in the cluster."""
        return dict(to_dict(await self.client.get(CRD, NAME, uncached=True)))

    async def replace(self, change: Callable[[dict[str, Any]], None], *, manager: str = "kubectl-replace") -> None:
        """Replace the definition, as ``kubectl replace`` and OLM do."""
        tree = await self.definition()
        change(tree)
        await self.client.update(Unstructured.from_tree(tree), field_owner=manager)

    async def recreate(self, tree: dict[str, Any]) -> None:
        """Delete the definition, and create it from a backup."""
        await self.client.delete(CRD, NAME)
        while await self.client.get_or_none(CRD, NAME, uncached=True) is not None:
            await asyncio.sleep(0.1)
        backup = {key: tree["metadata"][key] for key in ("name", "annotations") if key in tree["metadata"]}
        spec = {key: value for key, value in tree.items() if key in ("apiVersion", "kind", "spec")}
        await self.client.create(Unstructured.from_tree({**spec, "metadata": backup}))

    async def ca_bundle(self) -> str:
        """The caBundle of the webhook configuration."""
        configuration = await self.client.get(CONFIGURATION, "sites-validating")
        return str(configuration["webhooks"][0]["clientConfig"].get("caBundle", ""))

    async def failure(self) -> str:
        """Why the replica is not ready; empty if it is."""
        failures = await self.operator.manager.readyz.failures()
        return str(failures.get("registered-objects", ""))

    def faults(self) -> int:
        """The faults of all objects in the metrics."""
        faults = [record for record in self.hook.records if isinstance(record, RegisteredFaults)]
        return sum({record.object: record.critical + record.others for record in faults}.values())


@asynccontextmanager
async def installed(
    *,
    certificates: SelfSigned | None = CERTIFICATES,
    without: str = "",
    configurations: bool = True,
    drop: bool = False,
) -> AsyncIterator[Installation]:
    """An operator in a cluster. Its definition may have lost the conversion before."""
    async with environment.Environment(hot_loop_limit=0) as env, Cluster(env.config) as admin:
        run = Installation(env, make_operator(certificates), admin.uncached)
        await run.install(without=without)
        if configurations and certificates is not None:
            await run.configure()
        if drop:
            await run.replace(drop_conversion)
        run.operator.add_hook(run.hook)
        user = env.add_user("system:serviceaccount:default:sites")
        async with running(run.operator, user.config, definitions=False):
            await asyncio.sleep(1)
            yield run


def drop_conversion(tree: dict[str, Any]) -> None:
    """Remove the conversion, as in a definition of an older version."""
    del tree["spec"]["conversion"]


def is_converted(tree: dict[str, Any]) -> bool:
    """Whether the operator converts the objects of a definition."""
    config = (tree["spec"]["conversion"].get("webhook") or {}).get("clientConfig") or {}
    return bool(config.get("caBundle")) and config["service"]["name"] == "hooks"


async def test_a_replaced_definition_gets_its_conversion_back() -> None:
    """A definition that is replaced without its conversion has it again within a second, and no object loses fields."""
    async with installed() as run:
        assert is_converted(await run.definition())
        for manager in ("kubectl-replace", "olm"):
            await run.replace(drop_conversion, manager=manager)
            await asyncio.sleep(0.9)
            assert is_converted(await run.definition())
        assert (await run.failure(), run.faults()) == ("", 0)


async def test_a_restored_backup_gets_the_current_ca_bundle() -> None:
    """An old caBundle in a configuration is replaced within a second."""
    async with installed() as run:
        current = await run.ca_bundle()
        old = base64.b64encode(create_authority(utc_now(), 1000).cert).decode()
        configuration = await run.client.get(CONFIGURATION, "sites-validating")
        patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": old}]
        await run.client.patch(configuration, json_patch(patch))
        assert await run.ca_bundle() == old
        await asyncio.sleep(0.9)
        assert await run.ca_bundle() == current


@pytest.mark.slow
async def test_a_writer_that_removes_it_again_is_met_ever_more_slowly(caplog: pytest.LogCaptureFixture) -> None:
    """Two writers do not fight without end: the writes get rarer, the replica is unready, and one line is logged."""
    async with installed() as run:
        caplog.clear()
        restored: list[float] = []
        end = monotonic() + 600
        while monotonic() < end:
            if is_converted(await run.definition()):
                restored.append(monotonic())
                await run.replace(drop_conversion, manager="gitops")
            await asyncio.sleep(0.5)
        assert len(restored) < 20
        assert "loses spec.conversion again and again: gitops writes it too" in await run.failure()
        assert run.faults() == 1
        assert (
            sum("again and again" in each.getMessage() and each.name.endswith("objects") for each in caplog.records)
            == 1
        )
        await asyncio.sleep(700)
        assert (await run.failure(), run.faults()) == ("", 0)


async def lost_for(run: Installation, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Remove the conversion, and return the lines that are logged in ten minutes. Readiness and metrics show it."""
    assert (await run.failure(), run.faults()) == ("", 0)
    caplog.clear()
    await run.replace(drop_conversion)
    await asyncio.sleep(0.9)
    assert NAME in await run.failure()
    assert run.faults() == 1
    await asyncio.sleep(600)
    return [
        each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING and "health" not in each.name
    ]


@pytest.mark.slow
async def test_a_role_without_patch_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Without the permission to patch, the loss is a readiness failure, a metric, and one log line."""
    async with installed() as run:
        await run.install(without="patch")
        lines = await lost_for(run, caplog)
        assert "lacks spec.conversion, which cannot be restored" in await run.failure()
        assert [line.partition(":")[0] for line in lines] == [
            f"CustomResourceDefinition {NAME} lacks spec.conversion, which cannot be restored",
            "cannot check the webhook certificates, will retry",
        ]


async def test_without_an_address_the_loss_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Where other programs issue the certificates, the operator cannot restore the conversion, and reports it once."""
    async with installed(certificates=None) as run:
        (line,) = await lost_for(run, caplog)
        assert "has no spec.conversion with a webhook, so objects of other versions lose fields" in line
        await run.replace(lambda tree: tree["spec"].update(conversion=conversion_stanza(run.client_config)))
        await asyncio.sleep(0.9)
        assert (await run.failure(), run.faults()) == ("", 0)


async def test_a_role_without_watch_polls(caplog: pytest.LogCaptureFixture) -> None:
    """Roles of an older version lack ``watch``: that is reported once, and a check restores the conversion later."""
    async with installed(without="watch") as run:
        await asyncio.sleep(60)
        assert sum("cannot be watched" in each.getMessage() for each in caplog.records) == 1
        assert (await run.failure(), run.faults()) == ("", 1)
        await run.replace(drop_conversion)
        await asyncio.sleep(CERTIFICATES.check_interval + 1)
        assert is_converted(await run.definition())


async def test_a_deleted_configuration_is_reported_until_it_is_back() -> None:
    """The operator cannot create a configuration, so a deletion is a readiness failure until it is applied again."""
    async with installed() as run:
        await run.client.delete(CONFIGURATION, "sites-validating")
        await asyncio.sleep(0.9)
        assert "sites-validating does not exist: the API server calls no webhook" in await run.failure()
        await run.configure()
        await asyncio.sleep(0.9)
        assert (await run.failure(), run.faults()) == ("", 0)
        assert await run.ca_bundle()


@pytest.mark.slow
async def test_a_replaced_configuration_is_reported_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    """What another writer changed in a webhook is one log line a field, and a metric; the replica stays ready."""
    async with installed() as run:
        caplog.clear()
        tree = to_dict(await run.client.get(CONFIGURATION, "sites-validating"))
        (webhook,) = tree["webhooks"]
        webhook["failurePolicy"], webhook["rules"][0]["operations"] = "Ignore", ["UPDATE"]
        await run.client.update(Unstructured.from_tree(tree), field_owner="olm")
        await asyncio.sleep(600)
        lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
        assert [line.partition(": ")[2].partition(" is ")[0] for line in lines] == ["rules", "failurePolicy"]
        assert (await run.failure(), run.faults()) == ("", 2)
        await run.client.delete(CONFIGURATION, "sites-validating")
        await run.configure()
        await asyncio.sleep(0.9)
        assert (await run.failure(), run.faults()) == ("", 0)


async def test_a_configuration_may_come_after_the_operator() -> None:
    """An installation creates the configurations last: the replica is ready before, and sets the caBundle at once."""
    async with installed(configurations=False) as run:
        assert (await run.failure(), run.faults()) == ("", 1)
        await run.configure()
        await asyncio.sleep(0.9)
        assert await run.ca_bundle()
        assert run.faults() == 0


def downgrade(tree: dict[str, Any]) -> None:
    """Serve and store the older version, as its definition does."""
    for version in tree["spec"]["versions"]:
        version["served"] = version["storage"] = version["name"] == "v1beta1"


def older(tree: dict[str, Any]) -> None:
    """The definition of a backup from before the newer version."""
    tree["spec"]["versions"] = [each for each in tree["spec"]["versions"] if each["name"] == "v1beta1"]
    downgrade(tree)
    tree["spec"]["conversion"] = {"strategy": "None"}


@pytest.mark.parametrize("manager", ["kubectl-replace", "velero", "olm"])
async def test_a_downgraded_definition_is_served_again(manager: str) -> None:
    """A definition that no longer serves the version of the controller serves it again; the storage version stays."""
    async with installed() as run:
        await run.replace(downgrade, manager=manager)
        await asyncio.sleep(0.9)
        versions = {each["name"]: each for each in (await run.definition())["spec"]["versions"]}
        assert versions["v1"]["served"]
        assert not versions["v1"]["storage"]
        assert is_converted(await run.definition())
        assert (await run.failure(), run.faults()) == ("", 1)


async def test_a_definition_of_a_backup_is_reported() -> None:
    """A definition without the version of the controller makes the replica unready, until it is applied again."""
    async with installed() as run:
        newer = await run.definition()
        # The API server refuses to remove a stored version, so a backup is another object.
        tree = await run.definition()
        older(tree)
        await run.recreate(tree)
        await asyncio.sleep(2)
        assert "does not serve v1: apply the CustomResourceDefinition of this version" in await run.failure()
        await run.recreate(newer)
        await asyncio.sleep(2)
        assert (await run.failure(), run.faults()) == ("", 0)


async def test_a_loss_before_the_start_is_restored_before_the_caches() -> None:
    """After a restart, the conversion is restored before the operator lists objects of its version."""
    async with installed(drop=True) as run:
        assert is_converted(await run.definition())
        assert (await run.failure(), run.faults()) == ("", 0)


async def test_a_check_at_rest_reads_the_secret_only() -> None:
    """Objects that a watch shows as declared are not read."""
    async with installed() as run:
        await asyncio.sleep(60)
        run.env.audit.clear()
        await asyncio.sleep(60)
        reads = {each.resource for each in run.env.audit.select(user="system:serviceaccount:default:sites", verb="get")}
        assert reads == {"secrets"}
