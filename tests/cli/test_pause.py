"""``opsdk pause``, ``resume`` and ``reconcile`` against a server and a running operator, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opsdk import Client, Cluster, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.cli.__main__ import main
from opsdk.cli.pause import pause_value
from opsdk.errors import UsageError
from opsdk.event.predicates import generation_changed, on
from opsdk.testing.eventually import eventually
from opsdk.testing.running import running

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
pytestmark = pytest.mark.realtime
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def operator_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Client, dict[str, int]]]:
    """Run an operator of ConfigMaps, whose predicate drops changes of annotations, and count its passes by name."""
    operator, passes = Operator("maps"), dict[str, int]()

    @operator.reconciler(ConfigMap, predicates=[generation_changed(), on(delete=False)])
    async def reconcile(config_map: ConfigMap) -> None:
        passes[config_map.metadata.name] = passes.get(config_map.metadata.name, 0) + 1

    async with environment.Environment() as env, Cluster(env.config) as outside:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(env.kubeconfig(await env.serve()))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        for namespace, name, tier in (("default", "a", "web"), ("default", "b", "db"), ("kube-public", "c", "web")):
            meta = ObjectMeta(name=name, namespace=namespace, labels={"tier": tier})
            await outside.uncached.create(ConfigMap(metadata=meta))
        async with running(operator, env):
            await eventually(lambda: passes.keys() >= {"a", "b", "c"})
            yield outside.uncached, passes


async def opsdk(*words: str) -> int:
    """Run the command in a thread: it blocks."""
    return await asyncio.to_thread(main, [*words, "--yes"])


async def test_one_object_is_paused_reconciled_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A requested reconcile waits for the end of the pause; without a pause it runs at once."""
    async with operator_at_work(tmp_path, monkeypatch) as (client, passes):
        assert await opsdk("reconcile", "configmaps", "default/a") == 0
        await eventually(lambda: passes["a"] == 2)
        assert await opsdk("pause", "cm", "default/a", "--for", "2h", "--reason", "moves") == 0
        annotations = (await client.get(ConfigMap, "default/a")).metadata.annotations
        until = annotations["opsdk.dev/paused"]
        assert timedelta(minutes=119) < datetime.fromisoformat(until) - datetime.now(UTC) <= timedelta(hours=2)
        assert annotations["opsdk.dev/paused-reason"] == "moves"
        assert await opsdk("reconcile", "configmap", "a", "-n", "default") == 0
        await asyncio.sleep(0.2)
        assert passes["a"] == 2
        assert await opsdk("resume", "configmaps", "default/a") == 0
        await eventually(lambda: passes["a"] == 3)
        assert capsys.readouterr().out.splitlines() == [
            "ConfigMap default/a: reconcile requested",
            f"ConfigMap default/a: paused until {until}",
            "ConfigMap default/a: reconcile requested",
            "ConfigMap default/a: resumed",
        ]


async def test_a_selector_and_all_choose_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A selector pauses its objects in all namespaces or one; resume names only objects that were paused."""
    async with operator_at_work(tmp_path, monkeypatch) as (client, _):
        assert await opsdk("pause", "configmaps", "-l", "tier=web", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == [
            {"object": "ConfigMap default/a", "action": "paused"},
            {"object": "ConfigMap kube-public/c", "action": "paused"},
        ]
        assert await opsdk("resume", "configmaps", "--all", "--namespace", "default") == 0
        assert await opsdk("resume", "configmaps", "--all") == 0
        assert await opsdk("resume", "configmaps", "--all") == 0
        assert capsys.readouterr().out.splitlines() == [
            "ConfigMap default/a: resumed",
            "ConfigMap kube-public/c: resumed",
            "no objects",
        ]
        assert (await client.get(ConfigMap, "default/b")).metadata.annotations == {}


async def test_objects_and_kinds_that_do_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input: one line on standard error, and status 1."""
    async with operator_at_work(tmp_path, monkeypatch):
        for words, text in (
            (["pause", "configmaps", "default/missing"], '"missing" not found'),
            (["pause", "nonsense", "a"], "serves no resource nonsense"),
            (["resume", "configmaps", "a"], "ConfigMap a: write NAMESPACE/NAME"),
            (["reconcile", "namespaces", "x/default"], "Namespace x/default: write NAME"),
        ):
            assert await opsdk(*words) == 1
            assert text in capsys.readouterr().err


PROGRAM = """
from opsdk import Operator, OperatorOptions

operator = Operator("maps", OperatorOptions(pause_config_map="maps-pauses"))
bare = Operator("bare")
"""


async def test_a_whole_controller_is_paused_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ConfigMap is created with the first pause, and loses the keys of the controller with its resumption."""
    program = tmp_path / "maps.py"
    program.write_text(PROGRAM)
    async with operator_at_work(tmp_path, monkeypatch) as (client, _):
        words = ("--controller", "website", "--operator", f"{program}:operator")
        assert await opsdk("resume", *words) == 0
        assert await client.get_or_none(ConfigMap, "default/maps-pauses") is None
        assert await opsdk("pause", *words, "--until", "2099-01-02T00:00:00Z", "--reason", "moves") == 0
        pauses = await client.get(ConfigMap, "default/maps-pauses")
        assert pauses.data == {"website": "2099-01-02T00:00:00Z", "website.reason": "moves"}
        assert await opsdk("pause", *words) == 0
        assert (await client.get(ConfigMap, "default/maps-pauses")).data == {"website": "true"}
        assert await opsdk("resume", *words) == 0
        assert (await client.get(ConfigMap, "default/maps-pauses")).data == {}
        assert capsys.readouterr().out.splitlines() == [
            "controller website: resumed",
            "controller website: paused until 2099-01-02T00:00:00Z",
            "controller website: paused",
            "controller website: resumed",
        ]
        assert await opsdk("pause", "--controller", "website", "--operator", f"{program}:bare") == 1
        assert "set OperatorOptions(pause_config_map=...)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["pause"], "which objects? Pass NAMESPACE/NAME"),
        (["pause", "sites", "--controller", "website"], "--controller and KIND, --selector or --all are mutually"),
        (["resume", "--controller", "website", "--all"], "--controller and KIND, --selector or --all are mutually"),
        (["pause", "sites"], "which sites? Pass NAMESPACE/NAME, --selector LABELS or --all"),
        (["resume", "sites", "a/b", "--all"], "NAME and --all are mutually exclusive"),
        (["reconcile", "sites", "-l", "x=y", "--all"], "--selector and --all are mutually exclusive"),
        (["pause", "sites", "a/b", "-n", "c"], "disagree"),
        (["pause", "sites", "-l", "!!"], "!!"),
        (["pause", "sites", "a/b", "--for", "1h", "--until", "2030-01-01T00:00:00Z"], "mutually exclusive"),
        (["pause", "sites", "a/b", "--for", "1 hour"], "--for is '1 hour': write a duration, such as 30s"),
        (["pause", "sites", "a/b", "--for", "-1h"], "which is not in the future"),
        (["pause", "sites", "a/b", "--for", "999999999h"], "--for is '999999999h'"),
        (["pause", "sites", "a/b", "--until", "tomorrow"], "--until is 'tomorrow': write a time with its zone"),
        (["pause", "sites", "a/b", "--until", "2020-01-01T00:00:00Z"], "would end at 2020-01-01T00:00:00Z"),
    ],
)
def test_wrong_words_are_refused_before_the_server_is_called(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input: one line says what to write."""
    assert main([*words, "--yes"]) == 1
    assert text in capsys.readouterr().err


def test_the_value_of_the_annotation() -> None:
    """The annotation of a pause is ``true``, or the time of its end in UTC."""
    assert pause_value("", "", now=NOW) == "true"
    assert pause_value("36h", "", now=NOW) == "2026-01-02T12:00:00Z"
    assert pause_value("", "2026-01-02T01:00:00+02:00", now=NOW) == "2026-01-01T23:00:00Z"
    with pytest.raises(UsageError, match="not in the future"):
        pause_value("0s", "", now=NOW)
