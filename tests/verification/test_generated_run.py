"""Oracles of generated custom resources: planted bugs are found from the schema alone, and correct operators pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
import simulations
from msgspec import Meta, field
from planned_scenarios import SCENARIOS
from slow_cases import mostly_deep

import envtest
from database.api import Database
from opsdk import Condition, Context, GroupVersionKind, LabelSelector, Model, Object, ObjectMeta, Operator, Request
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core import v1 as core
from opsdk.builder.arguments import WatchSpec
from opsdk.engine.doubles import factory_of
from opsdk.errors import NotFoundError
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.false_conditions import is_empty
from opsdk.verification.generated import GeneratedVerification, VerifiedOperator
from opsdk.verification.generated_run import GeneratedSummary, check_generated
from opsdk.verification.oracles import Oracle, OracleFinding, text_without_names

Body = Callable[..., object]


class Proxy(Model, kw_only=True):
    """A part that a flag enables."""

    enabled: bool = False
    port: int = 8080


class ShopSpec(Model, kw_only=True):
    """Two texts, an image, and a part."""

    text: str = "a"
    banner: str = ""
    image: Annotated[str, Meta(min_length=1)] = "registry.k8s.io/pause:3.9"
    proxy: Proxy | None = None


class ShopStatus(Model, kw_only=True):
    """What the reconciler reports."""

    conditions: list[Condition] = field(default_factory=list)


class Shop(Object[ShopSpec, ShopStatus]):
    """What the operators reconcile."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Shop")


class DiskSpec(Model, kw_only=True):
    """The size of a volume."""

    storage: int = 1


class Disk(Object[DiskSpec, None]):
    """An object with a volume."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Disk")


class TicketSpec(Model, kw_only=True):
    """A text."""

    text: str = ""


class Ticket(Object[TicketSpec, None]):
    """What another operator reconciles."""

    gvk = GroupVersionKind("tickets.opsdk.dev", "v1", "Ticket")


def to_nothing(_: Ticket) -> list[Request]:
    """A handler that starts no reconcile."""
    return []


# ---------------------------------------------------------------- operators
def config_map(shop: Shop, **more: str) -> core.ConfigMap:
    """The child with everything that the spec has."""
    data = {"text": shop.spec.text, "banner": shop.spec.banner, "image": shop.spec.image, **more}
    if shop.spec.proxy is not None and shop.spec.proxy.enabled:
        data["port"] = str(shop.spec.proxy.port)
    return core.ConfigMap(metadata=ObjectMeta(name=shop.metadata.name), data=data)


def deployment(shop: Shop) -> Deployment:
    """A pod with the image."""
    labels = {"app": shop.metadata.name}
    template = core.PodTemplateSpec(
        metadata=ObjectMeta(labels=labels),
        spec=core.PodSpec(containers=[core.Container(name="main", image=shop.spec.image)]),
    )
    spec = DeploymentSpec(selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=shop.metadata.name), spec=spec)


async def good(shop: Shop, ctx: Context) -> None:
    """Applies both children, and reports whether the pods are ready."""
    await ctx.apply(config_map(shop))
    live = await ctx.apply(deployment(shop))
    ready = not live.status.unavailable_replicas and live.status.updated_replicas == 1
    async with ctx.status(shop) as patch:
        patch.set_condition("Ready", ready, "Available" if ready else "RollingOut", "of the pods")


async def keep_old_banners(shop: Shop, ctx: Context) -> None:
    """The bug: what once was in the child stays there."""
    child = config_map(shop, **{f"banner-{len(shop.spec.banner)}": "shown"})
    existing = await ctx.client.get_or_none(core.ConfigMap, shop.metadata.name, namespace=shop.metadata.namespace)
    child.data = {**({} if existing is None else existing.data), **child.data}
    await ctx.apply(child)


async def wait_for_ready_pods(shop: Shop, ctx: Context) -> None:
    """The bug: an update waits until all pods are ready, so a bad image stays for ever."""
    await ctx.apply(config_map(shop))
    existing = await ctx.client.get_or_none(Deployment, shop.metadata.name, namespace=shop.metadata.namespace)
    if existing is None or not existing.status.unavailable_replicas:
        existing = await ctx.apply(deployment(shop))
    ready = not existing.status.unavailable_replicas
    async with ctx.status(shop) as patch:
        patch.set_condition("Ready", ready, "Available" if ready else "RollingOut", "of the pods")


async def forget_the_banner(shop: Shop, ctx: Context) -> None:
    """The bug: a field is not used."""
    shop.spec.banner = ""
    await good(shop, ctx)


async def say_nothing(shop: Shop, ctx: Context) -> None:
    """The bug: pods that do not start are not reported."""
    await ctx.apply(config_map(shop))
    await ctx.apply(deployment(shop))


async def divide_by_the_text(shop: Shop, ctx: Context) -> None:
    """The bug: a value that the schema admits is not expected."""
    await ctx.apply(config_map(shop, first=str(1 // ("a" in shop.spec.text))))


async def do_nothing(shop: Shop, ctx: Context) -> None:
    """Needs what nothing generates, and says so only in its log."""


async def need_a_config_map(shop: Shop, ctx: Context) -> None:
    """Reads an object that must exist."""
    try:
        await ctx.client.get(core.ConfigMap, "settings", namespace=shop.metadata.namespace)
    except NotFoundError:
        await ctx.apply(config_map(shop))
        return


async def label_with_the_text(ticket: Ticket, ctx: Context) -> None:
    """Leaves it to the API server to refuse a text that is no label value."""
    await ctx.apply(core.ConfigMap(metadata=ObjectMeta(name="ticket", labels={"text": ticket.spec.text})))


async def keep_the_larger_volume(disk: Disk, ctx: Context) -> None:
    """A volume never shrinks."""
    existing = await ctx.client.get_or_none(core.ConfigMap, disk.metadata.name, namespace=disk.metadata.namespace)
    size = max(disk.spec.storage, int(existing.data["size"]) if existing is not None else 0)
    await ctx.apply(core.ConfigMap(metadata=ObjectMeta(name=disk.metadata.name), data={"size": str(size)}))


# ---------------------------------------------------------------- runs
def verification(
    body: Body, *, operations: int = 60, examples: list[JsonObject] | None = None, kind: type[Any] = Shop,
    **declared: Any,
) -> GeneratedVerification:  # fmt: skip
    """The workloads of an operator with one reconciler; `declared` is what its declaration has instead of children."""

    def make() -> Operator:
        operator = Operator("shop")
        operator.reconciler(kind, **(declared or {"owns": [core.ConfigMap, Deployment]}))(body)
        return operator

    operator = VerifiedOperator(factory_of(make, None), environment=environment)
    return operator.generated(operations=operations, examples=examples or [])


def environment(definitions: object) -> envtest.Environment:
    """A cluster with simulated controllers, as of the command."""
    return envtest.Environment(controllers="cluster", controller_events=False, crds=definitions)  # type: ignore[arg-type]


def checked(body: Body, *, operations: int = 60) -> GeneratedSummary:
    """The findings about an operator."""
    return check_generated(verification(body, operations=operations))


def of(summary: GeneratedSummary, oracle: Oracle) -> list[OracleFinding]:
    """The findings of one oracle."""
    return [each for each in summary.findings if each.oracle is oracle]


# ---------------------------------------------------------------- what is found
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "oracle", "text"),
    [
        pytest.param(
            keep_old_banners, Oracle.PATH_INDEPENDENCE, "configmaps default/example data.", marks=pytest.mark.slow
        ),
        pytest.param(
            wait_for_ready_pods, Oracle.RECOVERY, "deployments default/example spec.template", marks=pytest.mark.slow
        ),
        pytest.param(
            forget_the_banner,
            Oracle.FIELD_REACH,
            "spec.banner changes, and no object, status or Event does",
            marks=pytest.mark.slow,
        ),
        (say_nothing, Oracle.MISOPERATION, "deployments default/example is not ready"),
        pytest.param(divide_by_the_text, Oracle.ERROR_CHECK, "by zero", marks=pytest.mark.slow),
    ],
)
def test_a_planted_bug_is_found(body: Body, oracle: Oracle, text: str) -> None:
    """From the schema alone; the finding names the oracle, the operation and what differs."""
    summary = check_generated(verification(body, operations=24), stop_at_first=True)
    finding = of(summary, oracle)[0]
    assert text in str(finding)
    assert str(finding).startswith(f"{oracle.value}: Shop")
    assert summary.checks[oracle] > 0


@pytest.mark.slow
def test_a_correct_operator_passes() -> None:
    """Also with a part that only a flag enables: its fields are tried with the flag."""
    summary = checked(good, operations=30)
    assert [str(each) for each in summary.findings] == []
    assert set(+summary.checks) == {
        *(Oracle.PATH_INDEPENDENCE, Oracle.RECOVERY, Oracle.FIELD_REACH, Oracle.MISOPERATION, Oracle.ERROR_CHECK)
    }
    assert summary.advice == []


@pytest.mark.slow
def test_a_value_at_the_edge_may_be_left_to_the_api_server() -> None:
    """The author hears of it, but it is no bug."""
    summary = check_generated(verification(label_with_the_text, kind=Ticket, operations=20))
    assert [str(each) for each in summary.findings] == []
    [sentence] = [each for each in summary.advice if "Größe 1" in each]
    assert "422 Invalid" in sentence
    assert sentence.endswith("refuse such values in the schema, or report them in the status")


@pytest.mark.slow
def test_a_volume_need_not_shrink() -> None:
    """Kubernetes refuses a smaller claim, so the way to a state counts; an operator may also follow each size."""
    summary = check_generated(verification(keep_the_larger_volume, kind=Disk, operations=24))
    assert [str(each) for each in summary.findings] == []
    assert summary.checks[Oracle.PATH_INDEPENDENCE] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_deep(["websites", "greetings", "databases", "applications"], every=2))
def test_the_samples_pass(name: str) -> None:
    """No false alarm. ``make corpus`` runs all operations."""
    scenario = SCENARIOS[name]
    doubles = factory_of(scenario.operator, scenario.doubles)
    summary = check_generated(VerifiedOperator(doubles, environment=environment).generated(operations=20))
    assert [str(each) for each in summary.findings] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BOXES", "THREADS"])
def test_operators_with_daemons_and_temporary_errors_pass(name: str) -> None:
    """What waits for its next try is compared with nothing."""
    simulation = getattr(simulations, name)
    doubles = factory_of(simulation.operator, simulation.doubles)
    summary = check_generated(VerifiedOperator(doubles, environment=environment).generated(operations=20))
    assert [str(each) for each in summary.findings] == []


@pytest.mark.parametrize("related", [{"owns": [Ticket]}, {"watches": [WatchSpec(kind=Ticket, handler=to_nothing)]}])
def test_related_custom_resources_have_definitions(related: dict[str, Any]) -> None:
    """The operator lists them, and writes what it owns, though it reconciles another kind."""

    async def create_ticket(shop: Shop, ctx: Context) -> None:
        await ctx.apply(Ticket(metadata=ObjectMeta(name=shop.metadata.name), spec=TicketSpec(text=shop.spec.text)))

    summary = check_generated(verification(create_ticket, operations=1, **related))
    assert (summary.advice, summary.says_something) == ([], True)


# ---------------------------------------------------------------- what the workload lacks
@pytest.mark.slow
def test_an_operator_that_writes_nothing_is_named() -> None:
    """That it has no bugs would be false assurance."""
    summary = checked(do_nothing, operations=6)
    assert summary.findings == []
    assert summary.advice == ["the operator wrote nothing for any generated Shop: add a valid one with --example"]
    assert not summary.says_something


def test_a_refusal_of_every_object_is_named() -> None:
    """The sentence has the error of the webhook."""
    scenario = SCENARIOS["databases"]
    doubles = factory_of(scenario.operator, scenario.doubles)
    summary = check_generated(VerifiedOperator(doubles, environment=environment).generated(operations=3))
    assert not summary.says_something
    assert summary.advice[0].startswith("the server refuses each generated Database (")
    assert summary.advice[0].endswith("mysql is offered in the versions 8, 9): add a valid one with --example")


@pytest.mark.slow
def test_an_object_that_nothing_creates_is_named() -> None:
    """Unless an example has it."""
    [sentence] = checked(need_a_config_map, operations=3).advice
    assert sentence.startswith("the operator looks for ConfigMap default/settings, which nothing creates")
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    summary = check_generated(verification(need_a_config_map, operations=3, examples=[settings]))
    assert summary.advice == []


@pytest.mark.slow
def test_a_field_is_not_judged_while_what_it_may_act_on_is_absent() -> None:
    """The banner may be for pods of another program."""

    async def look_for_pods(shop: Shop, ctx: Context) -> None:
        await forget_the_banner(shop, ctx)
        await ctx.client.list(core.Pod, namespace=shop.metadata.namespace, label_selector={"shop": shop.metadata.name})

    summary = checked(look_for_pods, operations=30)
    assert [str(each) for each in summary.findings] == []
    assert not summary.checks[Oracle.FIELD_REACH]
    [sentence] = summary.advice
    assert sentence.startswith("the operator looks for Pod default/*, which nothing creates")


def test_an_example_makes_the_database_operator_write() -> None:
    """The Secret that it names has the keys of a login."""
    scenario = SCENARIOS["databases"]
    example = {
        "apiVersion": Database.gvk.api_version,
        "kind": "Database",
        "metadata": {"name": "example", "namespace": "default"},
        "spec": {"engine": "postgres", "version": "17", "credentials": {"name": "login"}},
    }
    doubles = factory_of(scenario.operator, scenario.doubles)
    summary = check_generated(
        VerifiedOperator(doubles, environment=environment).generated(operations=3, examples=[example])
    )
    assert summary.says_something
    assert [each for each in summary.advice if "external" not in each] == []
    assert summary.checks[Oracle.ERROR_CHECK] > 0


# ---------------------------------------------------------------- pure parts
def test_a_bug_is_reported_once() -> None:
    """A finding whose places another one has is left out."""
    one = OracleFinding(oracle=Oracle.RECOVERY, kind="A", operation="x", differences=(), places=frozenset({"a", "b"}))
    other = OracleFinding(oracle=Oracle.RECOVERY, kind="A", operation="y", differences=(), places=frozenset({"b"}))
    summary = GeneratedSummary()
    for finding in (one, other):
        summary.add(finding)
    assert summary.findings == [one]


def test_texts_are_compared_without_names() -> None:
    """Errors of one bug differ in names and numbers."""
    assert text_without_names("pods 'a' is 3") == text_without_names("pods 'b' is 4")
    assert is_empty({"a": [0, ""]})
    assert not is_empty({"a": [1]})
