"""Logs and commands of Pods in a plan: it refuses them, and names them."""

from __future__ import annotations

from pathlib import Path

import daily_work
import pytest

from opsdk import Client, Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.engine.doubles import EMPTY_CLUSTER
from opsdk.engine.environments import environment_factory
from opsdk.engine.planning import make_plan
from opsdk.engine.run import OperatorRun
from opsdk.errors import ApiError

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


def test_a_plan_names_each_request_that_needs_a_container(tmp_path: Path) -> None:
    """The operator gets a typed error at once that says what to do, and the plan has each request."""
    messages = []

    def make() -> Operator:
        operator = Operator("prober")

        @operator.reconciler(ConfigMap)
        async def reconcile(obj: ConfigMap, ctx: Context) -> None:
            with pytest.raises(ApiError) as failed:
                await ctx.cluster.pods.exec("default/p", ["true"])
            messages.append(str(failed.value))
            with pytest.raises(ApiError) as failed:
                _ = [line async for line in ctx.cluster.pods.logs("default/p")]
            messages.append(str(failed.value))
            for copy in (
                ctx.cluster.pods.copy_from("default/p", "/data", tmp_path / "copy"),
                ctx.cluster.pods.copy_to("default/p", tmp_path, "/data"),
            ):
                with pytest.raises(ApiError) as failed:
                    await copy
                messages.append(str(failed.value))
            for stream in (ctx.cluster.pods.attach("default/p"), ctx.cluster.pods.open_port("default/p", 80)):
                with pytest.raises(ApiError) as failed:
                    async with stream:
                        pass
                messages.append(str(failed.value))

        return operator

    async def create(client: Client) -> None:
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))

    run = OperatorRun(
        snapshot=EMPTY_CLUSTER, operator=make, environment=environment_factory(), changes=[create], quiet=60.0
    )
    outcome = run.execute()
    assert sorted((each.method, each.path.rpartition("/")[2], each.status) for each in outcome.refused) == [
        ("CONNECT", "attach", 501),
        ("CONNECT", "exec", 501),
        ("CONNECT", "portforward", 501),
        ("GET", "log", 501),
    ]
    assert "a plan runs no containers, so pods/exec has no answer" in messages[0]
    assert "a plan runs no containers, so pods/log has no answer" in messages[1]
    assert all("pods/exec has no answer" in message for message in messages[2:4])
    assert "pods/exec" in str(make_plan(outcome, make()))


def test_a_plan_of_daily_work() -> None:
    """It has the generated Secret, the field of another owner and the refused command; what is required can wait."""

    async def create(client: Client) -> None:
        meta = ObjectMeta(name="theirs", namespace=daily_work.NAMESPACE)
        await client.create(ConfigMap(metadata=meta))
        for name in ("done", "waits"):
            spec = daily_work.ChoreSpec(credentials="theirs" if name == "done" else "absent")
            meta = ObjectMeta(name=name, namespace=daily_work.NAMESPACE)
            await client.create(daily_work.Chore(metadata=meta, spec=spec))
        await client.create(Secret(metadata=ObjectMeta(name="theirs", namespace=daily_work.NAMESPACE)))

    for make in (daily_work.make_operator, daily_work.make_blocking_operator):
        run = OperatorRun(
            snapshot=EMPTY_CLUSTER, operator=make, environment=environment_factory(), changes=[create], quiet=60.0
        )
        outcome = run.execute()
        assert {(each.method, each.path.rpartition("/")[2]) for each in outcome.refused} == {("CONNECT", "exec")}
        plan = make_plan(outcome, make())
        assert {(change.subject, change.manager) for change in plan.changes} >= {
            ("Secret default/done-password", "chores"),
            ("ConfigMap default/theirs", "chores/chore:default:done"),
        }
        assert not any("waits-password" in change.subject for change in plan.changes)
        assert "pods/exec has no answer" in str(plan.consequences)
