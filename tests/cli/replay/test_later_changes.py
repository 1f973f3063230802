"""Faults that only a later change of others shows: from a place before it, ``--with`` and ``--cut`` play the change."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opsdk import ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import convert, deep_copy
from opsdk.cli.__main__ import main
from opsdk.client.patch import MergeFrom, merge_patch
from opsdk.engine.foreign_changes import HistoryError, read_history, read_history_file
from opsdk.testing.doubles import EMPTY_CLUSTER
from opsdk.testing.plans import assert_plan
from opsdk.testing.simulate import Simulation, Step, World

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

HEAD = """
from opsdk import Context, ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap

operator = Operator("copier")

async def clean(source: ConfigMap, ctx: Context) -> None:
    {clean}

@operator.reconciler({kind}, finalizers={finalizers})
async def reconcile(source: {kind}, ctx: Context) -> None:
    if source.metadata.name != "source":
        return
    {body}
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name="copy"), data={{"text": text}}))
"""
REPAIRED = "later_repaired"
BROKEN = "later_broken"


async def make_source(world: World) -> None:
    """Create the source."""
    meta = ObjectMeta(name="source", namespace="default")
    await world.client.create(ConfigMap(metadata=meta, data={"text": "hello"}))


async def edit_source(world: World) -> None:
    """Change the source in a way that both versions understand."""
    await _edit(world, {"text": "goodbye"})


async def empty_source(world: World) -> None:
    """Take the text away."""
    await _edit(world, {"other": "hello"})


async def _edit(world: World, data: dict[str, str]) -> None:
    source = await world.client.get(ConfigMap, "source", namespace="default")
    before = deep_copy(source)
    source.data = data
    await world.client.patch(source, MergeFrom(before))


async def delete_source(world: World) -> None:
    """Delete the source."""
    await world.client.delete(ConfigMap, "source", namespace="default")


async def make_deployment(world: World) -> None:
    """Create a Deployment, which nothing makes ready."""
    container = {"name": "web", "image": "web:1"}
    tree = {
        "metadata": {"name": "source", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }
    await world.client.create(convert(tree, Deployment))


async def make_deployment_ready(world: World) -> None:
    """Do what the Deployment's controller does."""
    deployment = await world.client.get(Deployment, "source", namespace="default")
    status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    await world.client.status().patch(deployment, merge_patch({"status": status}))


async def accept(world: World) -> None:
    """Accept every end."""


@dataclass(frozen=True, kw_only=True)
class Incident:
    """A fault of the broken version.

    Attributes:
        steps: what others do, before and after the place.
        broken: body of the broken version.
        repaired: body of the repaired version.
        message: of the plan of the broken version.
        kind: that the operator reconciles.
        finalizers: of the reconciler; its function has the body in `broken` or `repaired`, if there is one.
    """

    steps: dict[float, Callable[[World], Any]]
    broken: str
    repaired: str
    message: str
    kind: str = "ConfigMap"
    finalizers: str = "{}"

    def source(self, body: str) -> str:
        """Return a version of the program."""
        if self.finalizers == "{}":
            return HEAD.format(kind=self.kind, finalizers="{}", clean="pass", body=body)
        return HEAD.format(kind=self.kind, finalizers=self.finalizers, clean=body, body='text = source.data["text"]')


HEADER = b'{"format": "opsdk.dev/history", "formatVersion": 1}\n'
PLACE = 8.0
INCIDENTS = {
    "a field goes": Incident(
        steps={5.0: make_source, 10.0: edit_source, 15.0: empty_source},
        broken='text = source.data["text"]',
        repaired='text = source.data.get("text", "nothing")',
        message="its reconcile fails, also at the end: retry",
    ),
    "a Deployment gets ready": Incident(
        steps={5.0: make_deployment, 12.0: make_deployment_ready},
        broken="text = str(1 / (1 - (source.status.ready_replicas or 0) if source.status else 1))",
        repaired="text = str(source.status.ready_replicas if source.status else 0)",
        message="ZeroDivisionError",
        kind="Deployment",
    ),
    "a deletion hangs": Incident(
        steps={5.0: make_source, 14.0: delete_source},
        broken='raise RuntimeError("the record cannot be removed")',
        repaired="return",
        message="its deletion waits for the finalizer example.com/copy",
        finalizers='{"example.com/copy": clean}',
    ),
}


@pytest.fixture(params=INCIDENTS)
def incident(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Incident:
    """Return an incident, with its recording and both versions in the working directory."""
    incident = INCIDENTS[request.param]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    for name, body in ((BROKEN, incident.broken), (REPAIRED, incident.repaired)):
        monkeypatch.setitem(sys.modules, name, sys)
        del sys.modules[name]
        (tmp_path / f"{name}.py").write_text(incident.source(body))
    importlib.invalidate_caches()

    def make_operator() -> Operator:
        names: dict[str, Any] = {"__name__": BROKEN}
        exec(incident.source(incident.broken), names)
        operator: Operator = names["operator"]
        return operator

    simulation = Simulation(
        operator=make_operator,
        environment=environment.Environment,
        actions=list(dict.fromkeys(incident.steps.values())),
        check=accept,
        replicas=1,
    )
    steps = [
        Step(time=time, name=action.__name__, seed=number)
        for number, (time, action) in enumerate(incident.steps.items())
    ]
    _, starts = simulation.record(1, steps)
    starts[0].write(tmp_path / "night.opsdk-recording")
    return incident


@pytest.fixture
def replay(incident: Incident, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that replays until the place before the fault shows."""

    def run(*arguments: str) -> tuple[int, str]:
        place = ("--to-time", str(PLACE))
        status = main(["replay", "night.opsdk-recording", f"{BROKEN}:operator", *place, *arguments])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def test_the_broken_version_shows_the_fault_and_the_repaired_one_does_not(
    incident: Incident, replay: Callable[..., tuple[int, str]]
) -> None:
    """And without the later changes, neither does. The simulated controllers would make a Deployment ready."""
    status, text = replay("--with", f"{BROKEN}:operator")
    assert status == 3, text
    assert incident.message in text
    assert "What others did meanwhile, from the recording:" in text
    status, text = replay("--with", f"{REPAIRED}:operator")
    assert status in (0, 2), text
    assert "Danger" not in text
    if incident.kind == "Deployment":
        return
    status, text = replay("--with", f"{BROKEN}:operator", "--until", str(PLACE + 1))
    assert status in (0, 2), text
    assert "What others did" not in text


def test_the_cut_test_fails_until_the_operator_is_repaired(
    incident: Incident, replay: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """The history is beside the test, and no recording is needed."""
    test = tmp_path / "test_night.py"
    _, text = replay("--cut", str(test))
    (tmp_path / "night.opsdk-recording").unlink()
    assert f"{test.with_suffix('.history.jsonl')}" in text
    with pytest.raises(AssertionError):
        run_test(test)
    (tmp_path / f"{BROKEN}.py").write_text(incident.source(incident.repaired))
    run_test(test)


def run_test(path: Path) -> None:
    """Run the test of a file, with a new import of its operator."""
    sys.modules.pop(BROKEN, None)
    importlib.invalidate_caches()
    names: dict[str, Any] = {"__file__": str(path), "__name__": path.stem}
    exec(path.read_text(), names)
    names["test_the_operator_deals_with_the_state"]()


@pytest.mark.parametrize("incident", ["a field goes"], indirect=True)
@pytest.mark.usefixtures("incident")
def test_the_plan_says_when_each_change_came(replay: Callable[..., tuple[int, str]]) -> None:
    """And what this version had written by then, in text and in JSON."""
    _, text = replay("--with", f"{REPAIRED}:operator")
    lines = [line.strip() for line in text.splitlines()]
    first = next(
        number for number, line in enumerate(lines) if line.endswith("update ConfigMap default/source by user")
    )
    assert lines[first].startswith("after 4.9"), text
    assert lines[first + 1] == "data.text: 'hello' -> 'goodbye'"
    assert lines[first + 2] == "by then, the operator wrote: update ConfigMap default/copy"
    assert "data.text: 'goodbye' -> (none)" in lines
    _, text = replay("--with", f"{REPAIRED}:operator", "--output", "json")
    plan = json.loads(text[text.rindex("\n{\n") :])
    assert [each["change"]["after"]["data"] for each in plan["played"]] == [{"text": "goodbye"}, {"other": "hello"}]


@pytest.mark.parametrize("incident", ["a field goes"], indirect=True)
def test_a_change_of_an_object_that_is_not_there_is_skipped(
    incident: Incident, replay: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """In one sentence; the run goes on."""
    deleting = incident.repaired + "\n    await ctx.client.delete(source, missing_ok=True)"
    (tmp_path / "later_deleting.py").write_text(incident.source(deleting))
    _, text = replay("--with", "later_deleting:operator")
    skipped = "update ConfigMap default/source by user, skipped: it is not there: this version has deleted it, or never"
    assert text.count(skipped) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no history of opsdk"),
        (b'{"format": "other"}', "no history of opsdk"),
        (b'{"format": "opsdk.dev/history", "formatVersion": 99}', "install a newer opsdk"),
        (HEADER + b'{"seconds": 1}', "line 2 of the history is no change"),
        (
            HEADER + b'{"seconds": 1, "action": "create", "apiVersion": "v1", "kind": "Pod", "name": "a"}',
            "line 2 of the history creates an object without metadata",
        ),
    ],
)
def test_a_file_that_is_no_history(content: bytes, message: str) -> None:
    """The message says what to do."""
    with pytest.raises(HistoryError, match=message):
        read_history(content)


def test_a_history_that_is_missing(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(HistoryError, match=r"missing\.jsonl cannot be read"):
        read_history_file(tmp_path / "missing.jsonl")


def test_a_plan_without_a_history_has_no_played_changes() -> None:
    """A run without changes of others is as before."""
    assert not assert_plan(EMPTY_CLUSTER, operator=lambda: Operator("empty")).played
