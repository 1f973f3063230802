"""``opsdk canary`` against a server and two operators at work, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from opsdk import Client, Cluster, Context, ObjectMeta, Operator, OperatorOptions
from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.cli.__main__ import main
from opsdk.cli.generate.rbac import rules_of
from opsdk.errors import UsageError
from opsdk.fleet import Fleet, FleetOptions, NamespaceShards
from opsdk.fleet.canary_change import FleetView, end_canary, start_canary
from opsdk.fleet.canary_rules import CANARY_ANNOTATION, Canary, CanaryPhase
from opsdk.testing.eventually import eventually
from opsdk.testing.running import running

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
REALTIME = pytest.mark.realtime


def operator_of(version: str) -> Operator:
    """Return an operator of a version, which writes its version into ConfigMaps."""
    operator = Operator("maps", OperatorOptions(leader_election_namespace="default"))
    # Short periods: this runs in real time.
    options = FleetOptions(version=version, lease_duration=3.0, renew_deadline=2.0, retry_period=0.2)
    fleet = Fleet(operator, NamespaceShards(label_selector="team"), options)

    @fleet.reconciler(ConfigMap)
    async def reconcile(config_map: ConfigMap, ctx: Context) -> None:
        config_map.data["version"] = version
        await ctx.client.update(config_map)

    return operator


@asynccontextmanager
async def operators_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *versions: str) -> AsyncIterator[Client]:
    """Run operators of some versions for the namespaces red and blue."""
    async with environment.Environment() as env, Cluster(env.config) as outside, AsyncExitStack() as stack:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(env.kubeconfig(await env.serve()))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        client = outside.uncached
        for name in ("red", "blue"):
            await client.create(Namespace(metadata=ObjectMeta(name=name, labels={"team": "yes"})))
            await client.create(ConfigMap(metadata=ObjectMeta(name="x", namespace=name)))
        for version in versions:
            await stack.enter_async_context(running(operator_of(version), env))
        yield client


async def opsdk(*words: str) -> int:
    """Run the command in a thread: it blocks."""
    consent = [] if words[0] == "status" else ["--yes"]
    return await asyncio.to_thread(main, ["canary", *words, *consent])


async def version_of(client: Client, namespace: str) -> str | None:
    """Return the version that wrote the ConfigMap of a namespace."""
    return (await client.get(ConfigMap, f"{namespace}/x")).data.get("version")


@REALTIME
@pytest.mark.slow
async def test_a_canary_starts_is_promoted_and_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command prints the owners of all shards, for people and for programs."""

    async def status() -> dict[str, Any]:
        assert await opsdk("status", "--output", "json") == 0
        printed: dict[str, Any] = json.loads(capsys.readouterr().out)
        return printed

    async def versions(*expected: str) -> None:
        async def check() -> bool:
            now = await status()
            return now["settled"] and [shard["version"] for shard in now["shards"]] == list(expected)

        await eventually(check, within=30)

    async with operators_at_work(tmp_path, monkeypatch, "1", "2") as client:
        await eventually(partial(version_of, client, "blue"))
        await eventually(partial(version_of, client, "red"))
        assert await opsdk("start", "2", "--shard", "red", "--shard", "green") == 0
        assert "no shard is named green" in capsys.readouterr().out
        await versions("1", "2")
        assert await asyncio.to_thread(main, ["canary", "start", "2", "--shard", "red", "--dry-run"]) == 0
        assert "version 2 is a canary for 1 shard" in capsys.readouterr().out
        assert (await status())["canary"]["shards"] == ["green", "red"]
        assert await opsdk("start", "2", "--shard", "red") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == (
            "fleet maps in namespace default: version 2 is a canary for 1 shard, version 1 has the others"
        )
        assert [line.rpartition(",")[0] for line in lines[1:]] == ["  blue: version 1", "  red: version 2"]
        assert await opsdk("promote") == 0
        capsys.readouterr()
        await versions("2", "2")
        assert await opsdk("abort", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out)["canary"]["phase"] == "aborted"
        await versions("1", "1")
        assert (await status())["canary"] == {
            "version": "2",
            "base": "1",
            "shards": ["red"],
            "phase": "aborted",
            "fallback": True,
        }


@REALTIME
async def test_bad_input_is_one_line_and_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a fleet, with two, without a canary, and with a broken annotation."""
    async with operators_at_work(tmp_path, monkeypatch) as client:

        async def fails(text: str, *words: str) -> None:
            assert await opsdk(*words) == 1
            assert text in capsys.readouterr().err

        await fails("namespace default has no leases of a fleet: pass --fleet NAME", "status")
        await fails("the fleet maps has no canary", "promote", "--fleet", "maps")
        await fails("the other versions of the fleet maps are none", "start", "2", "-s", "red", "--fleet", "maps")
        await fails("cannot be the label", "start", "2+x", "-s", "red", "--fleet", "maps", "--base", "1")
        assert await opsdk("start", "2", "-s", "red", "--fleet", "maps", "--base", "1") == 0
        assert "no shard is named red" in capsys.readouterr().out
        await fails("no member of another version than 1 runs", "promote")
        (lease,) = (await client.list(Lease, namespace="default")).items
        lease.metadata.annotations[CANARY_ANNOTATION] = "{"
        await client.update(lease)
        await fails("is no canary", "abort")
        assert await opsdk("status") == 0
        assert "opsdk canary start" in capsys.readouterr().out


VIEW = FleetView(
    fleet="maps", namespace="default", canary=None, problem="", members={"a": "1", "b": "2"}, holders={"red": "a"}
)


def with_canary(canary: Canary | None, **members: str) -> FleetView:
    """Return a fleet with a choice."""
    return FleetView(
        fleet="maps", namespace="default", canary=canary, problem="", members=members, holders={"red": "a"}
    )


def test_a_canary_starts_beside_one_old_version() -> None:
    """The old version is the other one that runs, and the one of the running canary while its shards change."""
    canary = start_canary(VIEW, "2", ["red", "blue", "red"])
    assert canary == Canary(version="2", base="1", shards=("blue", "red"))
    again = start_canary(with_canary(canary, b="2"), "2", ["red"], fallback=False)
    assert again == Canary(version="2", base="1", shards=("red",), fallback=False)
    with pytest.raises(UsageError, match="are 1, 3: pass --base"):
        start_canary(with_canary(None, a="1", b="3"), "2", ["red"])
    with pytest.raises(UsageError, match="promote or abort it before version 3"):
        start_canary(with_canary(canary, a="1"), "3", ["red"])
    with pytest.raises(UsageError, match="canary of itself"):
        start_canary(VIEW, "2", ["red"], base="2")


def test_an_aborted_canary_is_not_promoted_and_a_promoted_one_can_be_aborted() -> None:
    """A promotion after an abort needs a new start. A rollback needs a member of the old version, or force."""
    canary = Canary(version="2", base="1", shards=("red",))
    aborted = end_canary(with_canary(canary, a="1"), CanaryPhase.ABORTED)
    with pytest.raises(UsageError, match="was aborted"):
        end_canary(with_canary(aborted, b="2"), CanaryPhase.PROMOTED)
    promoted = end_canary(with_canary(canary, b="2"), CanaryPhase.PROMOTED)
    with pytest.raises(UsageError, match="pass --force"):
        end_canary(with_canary(promoted, b="2"), CanaryPhase.ABORTED)
    assert end_canary(with_canary(promoted, b="2"), CanaryPhase.ABORTED, force=True).phase is CanaryPhase.ABORTED


def test_the_view_names_shards_that_wait() -> None:
    """A shard whose owner has another version than the choice waits, and so does one without an owner."""
    view = with_canary(Canary(version="2", base="1", shards=("red", "green")), a="1", b="2")
    assert view.unsettled_shards() == ["red"]
    assert view.unknown_shards() == ["green"]
    assert (view.version_of("red"), view.wanted_versions("red")) == ("1", ["2"])


def test_the_operator_may_read_the_choice() -> None:
    """The choice is a Lease, so the generated permissions of a fleet include it."""
    rules = [rule for rule in rules_of(operator_of("2"), "default").policy_rules() if "leases" in rule.resources]
    assert any({"get", "list", "watch"} <= set(rule.verbs) for rule in rules)
