"""Laws of generated workloads on a real server: structural validation, defaulting, pruning and CEL included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from server_caller import Caller
from slow_cases import mostly_slow

from envtest.environment import Environment
from opsdk.verification.workload.transitions import WorkloadOptions, generate_workload
from tests.verification.public_definitions import PUBLIC
from tests.verification.served_workloads import WorkloadRun, alone

ALL = WorkloadOptions(operations=5000)
SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def sample_versions() -> list[Any]:
    """Return each version of the definitions of the samples."""
    paths = sorted(SAMPLES.glob("*/config/crd/*.yaml"))
    definitions = [yaml.safe_load(path.read_text()) for path in paths]
    return [
        pytest.param(alone(one, version["name"]), id=f"{one['spec']['names']['kind']}-{version['name']}")
        for one in definitions
        for version in one["spec"]["versions"]
    ]


def public_definitions() -> list[Any]:
    """Return the definitions in the form of well-known operators."""
    return [pytest.param(one, id=one["spec"]["names"]["kind"]) for one in PUBLIC]


@pytest.mark.parametrize("definition", mostly_slow([*sample_versions(), *public_definitions()], every=3))
async def test_server_admits_and_refuses_as_each_operation_says(definition: Mapping[str, Any]) -> None:
    """Each value is admitted, or refused with its path, as its class says; a second seed uses the same values."""
    async with Environment(crds=[dict(definition)]) as env:
        for seed in (0, 1):
            workload = generate_workload(definition, options=WorkloadOptions(seed=seed, operations=5000))
            await WorkloadRun(Caller(env), definition).run(workload)
            assert workload.complete


@pytest.mark.parametrize("name", ["application", "database", "website"])
async def test_server_agrees_with_workloads_of_examples(name: str) -> None:
    """The samples' own custom resources, as a server returns them, begin a workload that the server agrees with."""
    (path,) = (SAMPLES / name / "config" / "crd").glob("*.yaml")
    definition = alone(yaml.safe_load(path.read_text()), "v1")
    documents = yaml.safe_load_all((SAMPLES / name / "config" / "samples" / f"{name}.yaml").read_text())
    (example,) = [one for one in documents if one["kind"] == definition["spec"]["names"]["kind"]]
    example["metadata"]["resourceVersion"] = "7"
    async with Environment(crds=[definition]) as env:
        workload = generate_workload(definition, examples=[{**example, "status": {}}], options=ALL)
        await WorkloadRun(Caller(env), definition).run(workload)
    assert workload.complete
    assert workload.unchanged == ()


@pytest.mark.parametrize("definition", [*sample_versions(), *public_definitions()])
def test_each_field_is_changed(definition: Mapping[str, Any]) -> None:
    """With enough operations, each field that a user can set is changed."""
    workload = generate_workload(definition, options=ALL)
    assert [str(one) for one in workload.unchanged] == []
    assert workload.cut == ()
