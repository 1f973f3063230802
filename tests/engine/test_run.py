"""One run of an operator on a snapshot: how it ends."""

from __future__ import annotations

import sys

from msgspec.structs import replace

from opsdk import Client, Context, ObjectMeta, Operator, UsageError
from opsdk.api.core.v1 import ConfigMap, Node
from opsdk.engine.doubles import EMPTY_CLUSTER
from opsdk.engine.environments import environment_factory
from opsdk.engine.planning import make_plan
from opsdk.engine.recording import RunPhase
from opsdk.engine.run import OperatorRun
from opsdk.engine.snapshot import SnapshotKind
from opsdk.rbac.rules import reads


async def broken_change(client: Client) -> None:
    """A change that fails in the hands of the user."""
    raise UsageError("the file has no objects")


def test_an_error_names_the_phase_in_which_it_came() -> None:
    """Not the end of the operator, which follows."""
    outcome = OperatorRun(
        snapshot=EMPTY_CLUSTER,
        operator=lambda: Operator("idle"),
        environment=environment_factory(),
        changes=[broken_change],
        quiet=60.0,
    ).execute()
    assert f"{RunPhase.CHANGES.value} failed: the file has no objects" in outcome.failure
    assert not outcome.reached


def test_an_operator_that_ends_its_process_is_a_failure() -> None:
    """The command that plans does not end with it."""

    def make() -> Operator:
        operator = Operator("ending")

        @operator.reconciler(ConfigMap)
        async def reconcile(obj: ConfigMap, ctx: Context) -> None:
            sys.exit(3)

        return operator

    async def create(client: Client) -> None:
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))

    outcome = OperatorRun(
        snapshot=EMPTY_CLUSTER, operator=make, environment=environment_factory(), changes=[create], quiet=60.0
    ).execute()
    assert outcome.failure == "the operator ended its process with status 3"
    assert not outcome.reached


def test_a_plan_names_what_its_run_assumed() -> None:
    """The operator reads nodes, which are not in the snapshot: the run assumed that the node of the pod is healthy."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "1"},
        "spec": {"nodeName": "node-7", "containers": [{"name": "a", "image": "a"}]},
    }
    pods = SnapshotKind(group="", version="v1", kind="Pod", plural="pods", namespaced=True, count=1)
    state = replace(EMPTY_CLUSTER, kinds=(pods,), objects=[pod])
    operator = Operator("reader")
    operator.rbac(reads(Node))
    run = OperatorRun(snapshot=state, operator=lambda: operator, environment=environment_factory(), quiet=60.0)
    plan = make_plan(run.execute(), operator)
    assert "nodes" in [each.what for each in plan.blind]
