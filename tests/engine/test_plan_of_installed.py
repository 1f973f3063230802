"""The plan of what is installed is empty, whatever installed it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sample_projects import OPERATORS, SAMPLES, project_of

import envtest
from opsdk import Client, Operator, Unstructured
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.builder.deployed import field_manager, labelled
from opsdk.cli.loading import load_operator
from opsdk.cli.package.inputs import PackageInputs, package_inputs
from opsdk.cli.package.tree import installed_objects
from opsdk.cli.plan.request import OperatorChoice
from opsdk.cli.project import current_project
from opsdk.cluster.cluster import Cluster
from opsdk.engine.environments import environment_factory
from opsdk.engine.kubectl_apply import apply_as_kubectl
from opsdk.engine.plan import Plan
from opsdk.engine.planning import make_plan
from opsdk.engine.run import OperatorRun
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.loop import VirtualLoop


async def install(client: Client, tree: JsonObject, way: str, operator: str) -> None:
    """Install an object as a program does."""
    if way == "opsdk deploy":
        await client.apply(Unstructured.from_tree(labelled(tree)), field_owner=field_manager(operator), force=True)
    elif way == "kubectl apply":
        await apply_as_kubectl(client, tree)
    elif way == "helm":
        labels = {"app.kubernetes.io/managed-by": "Helm"}
        meta = tree["metadata"] | {"labels": (tree["metadata"].get("labels") or {}) | labels}
        await client.create(Unstructured.from_tree({**tree, "metadata": meta}))
    else:
        await client.create(Unstructured.from_tree(tree))


def fresh_operator(state: ClusterSnapshot | None = None) -> Operator:
    """Return the project's operator as a new process has it; with a cluster, on the doubles of that."""
    package = current_project().package
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
    operator = load_operator("")
    return operator if state is None else OperatorChoice(reference="").on_doubles(state)


async def installed(parts: PackageInputs, samples: Sequence[JsonObject], way: str, operator: str) -> ClusterSnapshot:
    """Return a cluster with an operator's objects and its samples, before the operator has done anything."""
    files = installed_objects(parts.workload, parts.definitions, parts.rbac, parts.configurations)
    objects = [tree for objects in files.values() for tree in objects]
    async with envtest.Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        calling = [tree for tree in objects if tree["kind"].endswith("WebhookConfiguration")]
        for tree in objects:
            if tree not in calling:
                await install(cluster.uncached, tree, way, operator)
        for tree in samples:
            await apply_as_kubectl(cluster.uncached, tree)
        for tree in calling:
            await install(cluster.uncached, tree, way, operator)
        await asyncio.sleep(60)
        return await take_snapshot(env.config, secret_values=True)


def planned(state: ClusterSnapshot, namespace: str) -> tuple[Plan, ClusterSnapshot]:
    """Return the plan of the project's operator for a cluster, and the cluster afterwards."""
    operator = fresh_operator(state)
    run = OperatorRun(
        snapshot=state,
        operator=lambda: operator,
        environment=environment_factory(),
        namespace=namespace,
        horizon=3600,
        keep_end=True,
    )
    outcome = run.execute()
    assert not outcome.failure
    assert outcome.end is not None
    return make_plan(outcome, operator, namespace=namespace), outcome.end


@pytest.fixture(autouse=True)
def own_modules() -> Iterator[None]:
    """Give other tests their modules back."""
    before = dict(sys.modules)
    own = {"fake_dns", "fake_service", *(name.replace("-", "_") for name in OPERATORS)}
    yield
    for name in sys.modules.keys() - before.keys():
        if name.partition(".")[0] in own:
            del sys.modules[name]
    sys.modules.update(before)


WAYS = ["opsdk deploy", "kubectl apply", "kubectl create", "helm"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "way"),
    [
        pytest.param(sample, way, marks=[] if number % len(WAYS) == place else pytest.mark.slow)
        for number, sample in enumerate(OPERATORS)
        for place, way in enumerate(WAYS)
    ],
)
def test_the_plan_of_what_is_installed_is_empty(
    sample: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was installed changes, no consequence is dangerous, and what the operator makes of it stays."""
    monkeypatch.chdir(project_of(sample, tmp_path))
    operator = fresh_operator().name
    parts = package_inputs()
    samples = [parse_yaml(file.read_bytes()).tree for file in sorted(Path("config/samples").glob("*.yaml"))]
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(1)) as runner:
        state = runner.run(installed(parts, samples, way, operator))
    namespace = parts.workload.namespace
    first, end = planned(state, namespace)
    names = {f"{tree['kind']} {tree['metadata']['name']}" for tree in parts.definitions}
    assert not [change for change in first.changes if change.subject in names]
    assert not first.is_dangerous, [str(each) for each in first.consequences]
    second, _ = planned(end, namespace)
    assert second.is_empty
    assert not second.consequences


def test_a_field_with_its_default_is_not_lost_by_a_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server fills in what a converter leaves out. The definition changes, so its conversions are looked at."""
    monkeypatch.chdir(SAMPLES / "website")
    operator = fresh_operator().name
    parts = package_inputs()
    for version in parts.definitions[0]["spec"]["versions"]:
        version.pop("additionalPrinterColumns", None)
    site = {"apiVersion": "demo.opsdk.dev/v1", "kind": "Website", "metadata": {"name": "a"}, "spec": {"image": "a:1"}}
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(1)) as runner:
        state = runner.run(installed(parts, [site], "kubectl create", operator))
    assert any(obj["kind"] == "Website" and obj["spec"]["port"] for obj in state.objects)
    plan, _ = planned(state, parts.workload.namespace)
    assert [change.subject for change in plan.changes if change.subject.startswith("CustomResourceDefinition")]
    assert not plan.is_dangerous, list(map(str, plan.consequences))
