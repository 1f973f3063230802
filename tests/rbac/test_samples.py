"""The samples run as their service account with exactly the generated manifests, and need every rule of them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml
from _pytest.mark import ParameterSet
from greeter import Greeting, GreetingSpec
from greeter import reconcile as greet
from rbac_operator import install, rbac_server, service_account, until
from slow_cases import mostly_slow

import envtest
from application.dns import DnsClient
from application.operator import make_operator as make_application_operator
from database.api import Database, DatabaseSpec, SecretReference
from database.operator import make_operator as make_operator_of_databases
from database.service import HttpDatabaseService
from database.webhooks import add_webhooks as add_webhooks_of_databases
from envtest.testing.effects import Fail
from fake_service import FakeDatabaseService
from opsdk.api.core.v1 import ConfigMap, Secret, Service
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.kinds import kind_of_object
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Object, Unstructured
from opsdk.builder.flags import parse_flags
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cache.options import CacheOptions
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import ClusterOptions
from opsdk.errors import MissingPermissionsError
from opsdk.rbac.check import RbacCheck
from opsdk.rbac.manifests import RbacNames
from opsdk.rbac.observed import RuleRecorder
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.rbac.rules import applies, patches_status
from opsdk.recipes import get_condition, is_condition_true
from opsdk.testing.rules import assert_rules, observed_rules
from opsdk.testing.running import running
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.configurations import webhook_configurations
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.options import WebhookServerOptions
from opsdk.webhook.server import WebhookServer
from secret_copier.operator import make_operator as make_secret_copier
from website.api import Website, WebsiteSpec
from website.operator import make_operator
from website.webhooks import add_webhooks as add_webhooks_of_websites

SAMPLES_FOLDER = Path(__file__).resolve().parents[2] / "samples"
NAMESPACE = "operators"

Life = Callable[[envtest.Environment, Client], Awaitable[None]]


@dataclass(frozen=True)
class Sample:
    """An operator, and a life of its objects that needs every permission of it."""

    name: str
    kind: type[Object]
    make: Callable[[OperatorOptions], Operator]
    life: Life
    namespaces: tuple[str, ...] = ()

    def operator(self, check: RbacCheck = RbacCheck.OFF) -> Operator:
        """The operator, with leader election."""
        cluster = ClusterOptions(cache=CacheOptions(namespaces=self.namespaces))
        return self.make(OperatorOptions(leader_election=True, rbac_check=check, cluster=cluster))

    @property
    def names(self) -> RbacNames:
        """The names of its manifests."""
        return RbacNames(name=self.name, namespace=NAMESPACE)

    @property
    def rules(self) -> RuleSet:
        """What it declares."""
        return self.operator().rules(namespace=NAMESPACE)

    @property
    def required_rules(self) -> RuleSet:
        """What the check at the start reviews."""
        return self.operator().required_rules(namespace=NAMESPACE)


def make_greeter(options: OperatorOptions) -> Operator:
    """The sample, whose permissions are declared here: it is as short as the README."""
    operator = Operator("greeter", options)
    rules = [applies(ConfigMap), patches_status(Greeting)]
    operator.reconciler(Greeting, owns=[ConfigMap], rbac=rules)(greet)
    return operator


def fail_once(env: envtest.Environment, **match: str) -> None:
    """Answer a write with 404 once, as when the object was just deleted: the next read asks the server."""
    env.faults.add(Fail(404), verb="patch", times=1, **match)


async def greet_the_world(env: envtest.Environment, client: Client) -> None:
    """A greeting is created and changed; both of its patches find their object gone once."""
    greeting = Greeting(metadata=ObjectMeta(name="world", namespace="default"), spec=GreetingSpec(name="World"))

    async def greets(name: str) -> bool:
        live = await client.get(Greeting, "default/world")
        return live.status is not None and live.status.text == f"Hello {name}!"

    await client.create(greeting)
    await until(lambda: greets("World"))
    fail_once(env, resource="configmaps")
    fail_once(env, resource="greetings/status")
    await client.patch(greeting, merge_patch({"spec": {"name": "You"}}))
    await until(lambda: greets("You"))
    assert (await client.get(ConfigMap, "default/world")).data == {"text": "Hello You!"}
    await client.delete(greeting)


async def publish(env: envtest.Environment, client: Client) -> None:
    """A website is created, changed twice, repaired and deleted; each kind of patch finds its object gone once."""
    site = Website(metadata=ObjectMeta(name="hello", namespace="default"), spec=WebsiteSpec(image="nginx:1"))

    async def serves(image: str) -> bool:
        status = (await client.get(Website, "default/hello")).status
        return status is not None and status.image == image and is_condition_true(status.conditions, "Ready")

    async def change(**spec: object) -> None:
        await client.patch(site, merge_patch({"spec": spec}))
        await until(lambda: serves(str(spec["image"])))

    await client.create(site)
    await until(lambda: serves("nginx:1"))
    for resource in ("deployments", "services", "configmaps", "websites/status"):
        fail_once(env, resource=resource, name="hello")
    await change(image="nginx:2", port=8080, content="new")
    await change(image="nginx:1")  # the same Event again
    await client.delete(Service, "default/hello")
    await until(lambda: exists(client, Service))
    await client.delete(site)

    async def is_gone() -> bool:
        return not await exists(client, Website)

    await until(is_gone)
    assert await client.get_or_none(ConfigMap, "default/directory-hello") is None


def make_database_operator(options: OperatorOptions) -> Operator:
    """The sample, beside a service in memory."""
    transport = httpx.ASGITransport(app=FakeDatabaseService())
    return make_operator_of_databases(
        HttpDatabaseService(httpx.AsyncClient(transport=transport, base_url="http://service")), options
    )


async def order(env: envtest.Environment, client: Client) -> None:
    """A database is ordered, its password changes (so the same Event comes again), and it is deleted."""
    database = Database(
        metadata=ObjectMeta(name="orders", namespace="default"),
        spec=DatabaseSpec(engine="postgres", version="17", credentials=SecretReference(name="login")),
    )

    async def has_reason(reason: str) -> bool:
        status = (await client.get(Database, "default/orders")).status
        condition = get_condition(status.conditions, "Ready") if status is not None else None
        return condition is not None and condition.reason == reason

    async def set_password(password: str) -> None:
        login = Secret(metadata=ObjectMeta(name="login", namespace="default"))
        login.string_data = {"username": "orders", "password": password}
        await client.apply(login, field_owner="test")

    async def is_gone() -> bool:
        return await client.get_or_none(Database, "default/orders") is None

    await set_password("one")
    await client.create(database)
    await until(lambda: has_reason("Available"))
    fail_once(env, resource="databases/status")
    await set_password("two")
    await until(lambda: has_reason("InProgress"))
    await until(lambda: has_reason("Available"))
    await client.delete(database)
    await until(is_gone)


def make_webhook_operator(options: OperatorOptions) -> Operator:
    """An operator with webhooks only, which issues their certificate."""
    webhook = WebhookServerOptions(host="127.0.0.1", port=0, certificates=SelfSigned(service="hooks"))
    operator = Operator("hooks", replace(options, webhook=webhook))
    declare_webhooks(operator.webhook_for(Greeting))
    return operator


def declare_webhooks(builder: WebhookBuilder[Greeting]) -> WebhookBuilder[Greeting]:
    """A defaulter and a validator."""

    def do_nothing(greeting: Greeting, ctx: AdmissionContext) -> None: ...

    return builder.with_defaulter(do_nothing).with_validator(create=do_nothing)


async def serve_webhooks(env: envtest.Environment, client: Client) -> None:
    """Both configurations get the CA of the Secret, and a renewal is carried out."""
    server = WebhookServer()
    declare_webhooks(WebhookBuilder().for_(Greeting)).complete(server)
    config = SelfSigned(service="hooks", namespace=NAMESPACE).client_config()
    trees = webhook_configurations(server.registrations, config, name="hooks")
    for tree in trees:
        await client.create(Unstructured.from_tree(tree))

    async def are_trusted() -> bool:
        ca = base64.b64encode((await client.get(Secret, f"{NAMESPACE}/hooks-tls")).data["ca.crt"]).decode()
        live = [await client.get(kind_of_object(obj), obj.metadata.name) for obj in map(Unstructured.from_tree, trees)]
        return all(obj["webhooks"][0]["clientConfig"].get("caBundle") == ca for obj in live)

    await until(are_trusted)
    secret = await client.get(Secret, f"{NAMESPACE}/hooks-tls")
    await client.patch(secret, merge_patch({"metadata": {"annotations": {"opsdk.dev/renew": "serving"}}}))

    async def is_renewed() -> bool:
        return (await client.get(Secret, f"{NAMESPACE}/hooks-tls")).data["tls.crt"] != secret.data["tls.crt"]

    await until(is_renewed)


async def exists(client: Client, kind: type[Website | Service]) -> bool:
    """Whether the object of this kind exists."""
    return await client.get_or_none(kind, "default/hello") is not None


SAMPLES = {
    "greeter": Sample("greeter", Greeting, make_greeter, greet_the_world),
    "website": Sample("website-operator", Website, make_operator, publish),
    "database": Sample("database-operator", Database, make_database_operator, order),
    "webhooks": Sample("hooks", Greeting, make_webhook_operator, serve_webhooks),
    "website of one namespace": Sample("website-operator", Website, make_operator, publish, namespaces=("default",)),
}


def every_permission(*names: str, required: bool = False) -> list[ParameterSet]:
    """Each permission of some samples, or each without which the sample does not work."""
    return [
        pytest.param(SAMPLES[name], permission, id=f"{name}: {permission}")
        for name in names
        for permission in (SAMPLES[name].required_rules if required else SAMPLES[name].rules)
    ]


async def live(sample: Sample, env: envtest.Environment, client: Client, rules: RuleSet) -> RuleRecorder:
    """Run the sample with these permissions until its life ends, or until the server forbids something."""
    await client.create(Unstructured.from_tree(crd_for(sample.kind)))
    await install(client, rules, sample.names)
    operator = sample.operator()
    for permission in sample.rules:
        if permission.verb == "watch":
            # A server without streaming lists: the informer lists, then watches.
            env.faults.add(Fail(400), verb="watch", group=permission.group, resource=permission.resource, times=1)
    with observed_rules(operator) as observed:
        working = asyncio.create_task(operator.start(await service_account(env, client, sample.names)))
        living = asyncio.create_task(sample.life(env, client))
        try:
            while not (living.done() or observed.forbidden):
                await asyncio.sleep(0.05)
            if living.done():
                living.result()
                await asyncio.sleep(2)  # definitions are followed a second after the start
        finally:
            living.cancel()
            working.cancel()
            await asyncio.gather(living, working, return_exceptions=True)
    return observed


@pytest.mark.parametrize("name", SAMPLES)
async def test_the_generated_manifests_suffice(name: str) -> None:
    """With exactly the declared permissions nothing is forbidden, and every one of them is used."""
    sample = SAMPLES[name]
    async with rbac_server() as (env, client):
        observed = await live(sample, env, client, sample.rules)
        assert not observed.forbidden
        assert_rules(observed, sample.rules, unused=True)
        # The server's own record of authorizations, which does not include those that admission plugins ask for.
        account = env.observed_rbac().of(f"system:serviceaccount:{NAMESPACE}:{sample.name}")
        assert not account.denied
        requested = {p for p in sample.rules if not p.resource.endswith("/finalizers")}
        allowed = {(use.verb, use.group, use.resource) for use in account.allowed if use.resource}
        assert allowed == {(p.verb, p.group, p.resource) for p in requested}
        assert observed.rules(sample.rules) == RuleSet(requested)


@pytest.mark.parametrize(
    ("sample", "permission"), mostly_slow(every_permission("greeter", "website", "database", "webhooks"), every=4)
)
async def test_every_permission_is_needed(sample: Sample, permission: Permission) -> None:
    """Without any one of the declared permissions, the server forbids a request of the sample's life."""
    async with rbac_server() as (env, client):
        observed = await live(sample, env, client, RuleSet(sample.rules.permissions - {permission}))
        assert observed.forbidden
        if not permission.resource.endswith("/finalizers"):
            account = env.observed_rbac().of(f"system:serviceaccount:{NAMESPACE}:{sample.name}")
            denied = {(use.verb, use.group, use.resource) for use in account.denied}
            assert denied == {(permission.verb, permission.group, permission.resource)}


@pytest.mark.parametrize(
    ("sample", "permission"),
    mostly_slow(every_permission("greeter", "website of one namespace", required=True), every=4),
)
async def test_the_start_names_the_missing_permission(sample: Sample, permission: Permission) -> None:
    """With the check on, the operator ends before its controllers start, and names exactly what is missing."""
    async with rbac_server() as (env, client):
        await client.create(Unstructured.from_tree(crd_for(sample.kind)))
        await install(client, RuleSet(sample.rules.permissions - {permission}), sample.names)
        operator = sample.operator(RbacCheck.ERROR)
        with observed_rules(operator) as observed, pytest.raises(MissingPermissionsError) as raised:
            async with running(operator, await service_account(env, client, sample.names)):
                pass
        assert raised.value.missing == (str(permission),)
        assert not list(observed.requests)


@pytest.mark.parametrize("name", SAMPLES)
async def test_the_start_passes_with_the_generated_manifests(name: str) -> None:
    """With the check on and every permission granted, the operator starts."""
    sample = SAMPLES[name]
    async with rbac_server() as (env, client):
        await client.create(Unstructured.from_tree(crd_for(sample.kind)))
        await install(client, sample.rules, sample.names)
        async with running(
            sample.operator(RbacCheck.ERROR), await service_account(env, client, sample.names)
        ) as operator:
            await operator.manager.wait_elected()


def test_an_operator_of_one_namespace_has_no_cluster_role() -> None:
    """An operator of one namespace has permissions only there and in its Lease's namespace."""
    assert SAMPLES["website of one namespace"].rules.namespaces == ("default", NAMESPACE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "operator"),
    [
        ("website", add_webhooks_of_websites(make_operator())),
        ("database", add_webhooks_of_databases(make_database_operator(OperatorOptions()))),
        ("secret-copier", make_secret_copier()),
        ("application", make_application_operator(DnsClient(httpx.AsyncClient()))),
    ],
    ids=["website", "database", "secret-copier", "application"],
)
async def test_an_installed_sample_runs_as_its_service_account(folder: str, operator: Operator) -> None:
    """With the manifests of ``config/`` and the flags of its Deployment it leads, and makes its webhooks trusted."""
    config = SAMPLES_FOLDER / folder / "config"
    paths = yaml.safe_load((config / "kustomization.yaml").read_text())["resources"]
    trees = [tree for path in paths for tree in yaml.safe_load_all((config / path).read_text())]
    [template] = [tree["spec"]["template"]["spec"] for tree in trees if tree["kind"] == "Deployment"]
    # Ports are the machine's, and tests run side by side.
    flags = [flag for flag in template["containers"][0]["args"] if "metrics" not in flag and "health" not in flag]
    flags += ["--webhook-port=0", "--rbac-check=error"]
    operator.options, _ = parse_flags(operator.name, operator.options, flags, {})
    names = RbacNames(name=template["serviceAccountName"], namespace=f"{folder}-system")
    async with rbac_server() as (env, client):
        for tree in trees:
            await client.create(Unstructured.from_tree(tree))
        account = await service_account(env, client, names)
        with observed_rules(operator) as observed:
            async with running(operator, account, definitions=False):
                await operator.manager.wait_elected()
                for tree in trees:
                    if "webhooks" in tree:
                        await until(partial(has_ca, client, Unstructured.from_tree(tree)))
        assert not observed.forbidden


async def has_ca(client: Client, configuration: Unstructured) -> bool:
    """Whether the API server can verify the operator's certificate."""
    live = await client.get(kind_of_object(configuration), configuration.metadata.name)
    return all(webhook["clientConfig"].get("caBundle") for webhook in live["webhooks"])
