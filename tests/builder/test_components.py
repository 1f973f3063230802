"""Processes of one operator that run its controllers only, or its webhooks only."""

from __future__ import annotations

from functools import partial

import pytest

from envtest import Environment
from opsdk import Client, Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, OperatorOptions, UsageError
from opsdk.api.core.v1 import ConfigMap
from opsdk.rest.config import RestConfig
from opsdk.testing.eventually import eventually
from opsdk.testing.running import running
from opsdk.webhook.handlers import AdmissionContext

CONFIG = RestConfig(app=None, host="https://127.0.0.1:1", namespace="default")


class LeafSpec(Model):
    """A color."""

    color: str = ""


class Leaf(Object[LeafSpec, None]):
    """A kind with a defaulter."""

    gvk = GroupVersionKind("components.opsdk.dev", "v1", "Leaf")
    plural = "leaves"


def make_operator(*components: str, colors: list[str] | None = None) -> Operator:
    """Return an operator with a webhook and a controller that runs these components."""
    options = OperatorOptions(components=components, leader_election=True, leader_election_thread=False)
    operator = Operator("leaf", options)

    def paint(leaf: Leaf, ctx: AdmissionContext) -> None:
        leaf.spec.color = leaf.spec.color or "green"

    operator.webhook_for(Leaf).with_defaulter(paint)

    @operator.reconciler(Leaf)
    async def reconcile(leaf: Leaf, ctx: Context) -> None:
        (colors if colors is not None else []).append(leaf.spec.color)

    return operator


async def test_each_component_runs_in_a_process_of_its_own(k8s_env: Environment, k8s_client: Client) -> None:
    """The process for webhooks sets the default, the other one reconciles; only the other one leads."""
    colors: list[str] = []
    none: list[str] = []
    async with (
        running(make_operator("webhooks", colors=none), k8s_env) as webhooks,
        running(make_operator("controllers", colors=colors), k8s_env) as controllers,
    ):
        await k8s_client.create(Leaf(metadata=ObjectMeta(name="a", namespace="default"), spec=LeafSpec()))
        await eventually(lambda: colors == ["green"])
        assert (webhooks.has_webhooks, list(webhooks.controllers)) == (True, [])
        assert (controllers.has_webhooks, list(controllers.controllers)) == (False, ["leaf"])
    assert none == []


def test_setup_functions_may_not_build_controllers_beside_webhooks_only() -> None:
    """The error has the condition to write; without the controller, the same setup is accepted."""

    def setup(operator: Operator) -> None:
        if "controllers" in operator.options.components or not polite:
            operator.controller_for(ConfigMap).reconciler(partial(ignore)).complete()

    async def ignore(config_map: ConfigMap, ctx: Context) -> None:
        """Do nothing."""

    polite = False
    operator = make_operator("webhooks")
    operator.setup(setup)
    with pytest.raises(UsageError, match=r'if "controllers" in operator.options.components'):
        operator.prepare(CONFIG)
    polite = True
    operator = make_operator("webhooks")
    operator.setup(setup)
    operator.prepare(CONFIG)


def test_an_operator_without_webhooks_has_nothing_to_run_for_webhooks_only() -> None:
    """The preparation of a process with nothing to run is an error."""
    operator = Operator("leaf", OperatorOptions(components=("webhooks",)))

    @operator.reconciler(ConfigMap)
    async def reconcile(config_map: ConfigMap, ctx: Context) -> None:
        """Do nothing."""

    with pytest.raises(UsageError, match="has nothing to run"):
        operator.prepare(CONFIG)


@pytest.mark.parametrize("components", [(), ("webhook",)])
def test_unknown_components_are_refused(components: tuple[str, ...]) -> None:
    """A process runs at least one component that exists."""
    with pytest.raises(UsageError, match="write controllers, webhooks, or both"):
        OperatorOptions(components=components)
