"""Twelve incidents, each explained by at most three commands on its recording.

A placeholder of a command is a number that the command before has printed: the first error, the last write.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

import pytest
from slow_cases import mostly_slow

from opsdk import ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import deep_copy
from opsdk.cli.__main__ import main
from opsdk.client.patch import MergeFrom
from opsdk.testing.simulate import Simulation, Step, World

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

HEAD = """
from opsdk import Context, ObjectMeta, Operator, OperatorOptions
from opsdk.api.core.v1 import ConfigMap

operator = Operator("copier", OperatorOptions(leader_election={election}))
attempts = []

def is_source(obj: ConfigMap) -> bool:
    return obj.metadata.name == "source"

async def clean(source: ConfigMap, ctx: Context) -> None:
    if is_source(source) and source.data.get("locked"):
        raise RuntimeError("the source is locked")

@operator.reconciler(ConfigMap, finalizers={finalizers})
async def reconcile(source: ConfigMap, ctx: Context) -> None:
    if not is_source(source):
        return
    copy = ConfigMap(metadata=ObjectMeta(name="copy"), data={{"text": source.data.get("text", "")}})
"""
COPY = "await ctx.apply(copy)"
UPDATE = """await ctx.apply(copy)
stored = await ctx.client.get(ConfigMap, "copy", namespace="default")
stored.metadata.annotations["seen"] = source.data["text"]
await ctx.client.update(stored)"""


async def make_source(world: World) -> None:
    """Create the source."""
    meta = ObjectMeta(name="source", namespace="default")
    await world.client.create(ConfigMap(metadata=meta, data={"text": "hello"}))


async def edit_source(world: World) -> None:
    """Change the source."""
    await _edit(world, "source", {"text": f"hello {world.rng.random()}"})


async def lock_and_delete_source(world: World) -> None:
    """Change the source so that its finalizer fails, and delete it."""
    await _edit(world, "source", {"locked": "yes"})
    await world.client.delete(await world.client.get(ConfigMap, "source", namespace="default"))


async def empty_source(world: World) -> None:
    """Take the text away."""
    await _edit(world, "source", {"other": "hello"})


async def edit_copy(world: World) -> None:
    """Change what the operator manages."""
    await _edit(world, "copy", {"text": "edited by hand"})


async def delete_source(world: World) -> None:
    """Delete the source."""
    await world.client.delete(await world.client.get(ConfigMap, "source", namespace="default"))


async def _edit(world: World, name: str, data: dict[str, str]) -> None:
    obj = await world.client.get(ConfigMap, name, namespace="default")
    before = deep_copy(obj)
    obj.data = data
    await world.client.patch(obj, MergeFrom(before))


async def accept(world: World) -> None:
    """Accept every end."""


ACTIONS = [make_source, edit_source, lock_and_delete_source, empty_source, edit_copy, delete_source]


@dataclass(frozen=True, kw_only=True)
class Incident:
    """What went wrong at night.

    Attributes:
        body: of the reconciler.
        steps: actions and faults by their time.
        commands: what somebody types in the morning.
        words: that the output of each command must have.
        election: whether the operator elects a leader.
        finalizers: of the reconciler.
    """

    body: str = COPY
    steps: Sequence[Step]
    commands: Sequence[str]
    words: Sequence[Sequence[str]]
    election: bool = False
    finalizers: str = "{}"

    @property
    def source(self) -> str:
        """The program."""
        return HEAD.format(election=self.election, finalizers=self.finalizers) + indent(self.body, "    ")

    def make_operator(self) -> Operator:
        """Return a new operator of the program."""
        names: dict[str, object] = {"__name__": "incident"}
        exec(self.source, names)
        operator = names["operator"]
        assert isinstance(operator, Operator)
        return operator


def steps(*parts: tuple[float, str] | tuple[float, str, float]) -> list[Step]:
    """Return steps of time, name and seconds."""
    return [
        Step(time=part[0], name=part[1], seconds=part[2] if len(part) > 2 else 0.0, seed=number)
        for number, part in enumerate(parts)
    ]


EDITS = [(10.0 + number, "edit_source") for number in range(10)]
INCIDENTS = {
    "a field is missing": Incident(
        body='copy.data["text"] = source.data["text"]\nawait ctx.apply(copy)',
        steps=steps((5, "make_source"), (10, "empty_source")),
        commands=["", "--to-reconcile {error}"],
        words=[["KeyError('text')"], ["ConfigMap update default/source", "written by user"]],
    ),
    "the operator triggers itself": Incident(
        body='copy.data["at"] = str(len(attempts))\nattempts.append(1)\nawait ctx.apply(copy)\n'
        'source.data["count"] = str(len(attempts))\nawait ctx.client.update(source)',
        steps=steps((5, "make_source")),
        commands=["", "--to-reconcile 20"],
        words=[["reconciles"], ["ConfigMap update default/source", "(own write)", "update v1, Kind=ConfigMap"]],
    ),
    "somebody edits the copy": Incident(
        steps=steps((5, "make_source"), (10, "edit_copy"), (15, "edit_source")),
        commands=["--list writes", "--to-write 2"],
        words=[["#2"], ["configmaps/copy (reconcile of configmap default/source)"]],
    ),
    "an answer is lost": Incident(
        body=UPDATE,
        steps=steps((5, "make_source"), (8, "lose_answers", 60), *EDITS),
        commands=["", "--to-reconcile {error}"],
        words=[["error: retry in"], ["no response"]],
    ),
    "the lease is lost": Incident(
        election=True,
        steps=steps((5, "make_source"), (10, "lose_lease", 60)),
        commands=["", "--to-time 20 --list writes"],
        words=[["the operator ended: LeaderElectionLostError"], ["#1"]],
    ),
    "the API server is down": Incident(
        steps=steps((5, "make_source"), (9.9, "slow_watches", 0.2), (10, "unavailable", 30), (10.01, "edit_source")),
        commands=["", "--to-time 10 --show ConfigMap/default/source"],
        words=[["requests are identical"], ["text: hello"]],
    ),
    "a conflict": Incident(
        body=UPDATE,
        steps=steps((5, "make_source"), (8, "conflict", 60), *EDITS),
        commands=["", "--to-reconcile {error}"],
        words=[["409"], ["409", "ConfigMap update default/source"]],
    ),
    "a finalizer that never ends": Incident(
        finalizers='{"example.com/copy": clean}',
        steps=steps((5, "make_source"), (10, "lock_and_delete_source")),
        commands=["", "--to-time 20 --show ConfigMap/default/source"],
        words=[["the source is locked"], ["deletionTimestamp", "example.com/copy", 'locked: "yes"']],
    ),
    "the server refuses an object": Incident(
        body='copy.metadata.name = "Not A Name"\nawait ctx.apply(copy)',
        steps=steps((5, "make_source")),
        commands=["", "--to-write 1"],
        words=[["422", "Not A Name"], ['"name":"Not A Name"']],
    ),
    "the server throttles": Incident(
        body=UPDATE,
        steps=steps((5, "make_source"), (9, "throttle", 60), (10, "edit_source"), (20, "edit_source")),
        commands=["--list reconciles", "--to-time 12 --list writes"],
        words=[["configmap default/source"], ["configmaps/copy"]],
    ),
    "an old cache": Incident(
        steps=steps((5, "make_source"), (9, "slow_watches", 20), (10, "delete_source")),
        commands=["--to-time 15 --show ConfigMap/default/source", "--to-time 40 --list reconciles"],
        words=[["text: hello"], ["configmap default/source"]],
    ),
    "a service fails": Incident(
        body='await service.create("a")\n',
        steps=steps((5, "make_source")),
        commands=["", "--to-reconcile {error}"],
        words=[["quota exceeded"], ["ConfigMap create default/source"]],
    ),
}
SERVICE = """
from opsdk.recording.calls import record_calls

class Service:
    async def create(self, name: str) -> str:
        raise RuntimeError("quota exceeded")

service = record_calls(Service(), name="service")
"""


@pytest.mark.parametrize("name", mostly_slow(INCIDENTS, every=3))
def test_three_commands_explain_an_incident(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the recording alone. The replay is identical."""
    incident = INCIDENTS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(sys.modules[__name__], "HEAD", HEAD.replace("attempts = []", f"attempts = []{SERVICE}"))
    (tmp_path / "incident.py").write_text(incident.source)
    simulation = Simulation(
        operator=incident.make_operator, environment=environment.Environment, actions=ACTIONS, check=accept
    )
    _, starts = simulation.record(1, incident.steps)
    starts[0].write(tmp_path / "night.opsdk-recording")
    assert len(incident.commands) <= 3
    error = ""
    for command, words in zip(incident.commands, incident.words, strict=True):
        arguments = command.format(error=error).split()
        status = main(["replay", "night.opsdk-recording", "incident:operator", *arguments])
        text = capsys.readouterr().out
        assert status == 0, text
        for word in words:
            assert word in text
        error = next(iter(re.findall(r"the first is #(\d+)", text) or re.findall(r"errors:\n  #(\d+)", text)), error)
