"""Plans as assertions of tests: a stored expectation, and what a plan may not hide or show."""

from __future__ import annotations

import asyncio
import string
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from application.api import Application, ApplicationSpec
from application.dns import DnsClient
from application.operator import make_operator
from fake_dns import make_doubles
from opsdk import Client, Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.engine.environments import environment_factory
from opsdk.engine.plan import ConsequenceKind
from opsdk.engine.run import OperatorRun
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.errors import ConfigError, UsageError
from opsdk.testing.doubles import EMPTY_CLUSTER
from opsdk.testing.plans import assert_plan
from tests.engine.upgrades import ALL, Version, config, secret, state_of

OLD = Version(children=lambda name: [config(name, a="1")])
NEW = Version(children=lambda name: [config(name, a="2")])


def test_a_missing_expectation_is_written_and_then_holds(tmp_path: Path) -> None:
    """The first run fails, so that nobody commits a plan unread; the next one compares."""
    state, expected = state_of(OLD), tmp_path / "new.plan.txt"
    with pytest.raises(AssertionError, match="did not exist"):
        assert_plan(state, operator=NEW.operator, rules=ALL, expected=expected)
    plan = assert_plan(state, operator=NEW.operator, rules=ALL, expected=expected)
    assert [change.subject for change in plan.changes] == ["ConfigMap default/app-0"]
    assert "data.a: '1' -> '2'" in expected.read_text()


def test_another_plan_fails_with_the_difference(tmp_path: Path) -> None:
    """The message has the lines that differ, and how to accept them."""
    state, expected = state_of(OLD), tmp_path / "same.plan.txt"
    with pytest.raises(AssertionError, match="did not exist"):
        assert_plan(state, operator=OLD.operator, rules=ALL, expected=expected)
    with pytest.raises(AssertionError, match="delete the file to accept it") as failure:
        assert_plan(state, operator=NEW.operator, rules=ALL, expected=expected)
    assert "+      data.a: '1' -> '2'" in str(failure.value)


def test_an_unchanged_version_has_an_empty_plan() -> None:
    """Without an expectation, the plan is for the test's own assertions."""
    assert assert_plan(state_of(OLD), operator=OLD.operator, rules=ALL).is_empty


def test_a_plan_on_another_version() -> None:
    """The operator runs on a server of that version; an unknown one is an error before the run."""
    served = set()

    async def read_version(_: object, ctx: Context) -> None:
        served.add((await ctx.cluster.http.get("/version")).json()["minor"])

    version = Version(children=OLD.children, before=read_version)
    for kubernetes in ("1.35", "1.37"):
        assert assert_plan(state_of(OLD), operator=version.operator, rules=ALL, kubernetes=kubernetes).is_empty
        assert served == {kubernetes.removeprefix("1.")}
        served.clear()
    with pytest.raises(ConfigError, match=r"1\.99"):
        assert_plan(state_of(OLD), operator=OLD.operator, rules=ALL, kubernetes="1.99")


@pytest.mark.slow
def test_runs_on_different_states_create_different_uids() -> None:
    """A run on the end of another one, as ``opsdk plan --save`` writes it, must not repeat the uids of that one."""

    def created(state: ClusterSnapshot) -> set[str]:
        operator, environment = NEW.operator(), environment_factory()
        outcome = OperatorRun(snapshot=state, operator=lambda: operator, environment=environment, rules=ALL).execute()
        return {c.after["metadata"]["uid"] for c in outcome.changes.values() if c.before is None and c.after}

    other = config("other")
    other["metadata"]["namespace"] = "default"
    state, later = state_of(Version(), apps=5), state_of(Version(), apps=5, more=[other])
    assert len(created(state)) == 5
    assert created(state) == created(state)
    assert not created(state) & created(later)


def test_a_plan_ends_at_its_time() -> None:
    """The time begins with the operator. One that has written all before the end is not dangerous."""
    plan = assert_plan(state_of(OLD), operator=NEW.operator, rules=ALL, until=30)
    assert [change.subject for change in plan.changes] == ["ConfigMap default/app-0"]
    assert not plan.consequences


def test_an_operator_that_still_writes_at_the_end_is_dangerous() -> None:
    """It makes a new object every ten seconds: a plan for a day would show more."""

    async def make_objects(_: object, ctx: Context) -> None:
        for letter in string.ascii_lowercase:
            await ctx.client.create(ConfigMap(metadata=ObjectMeta(name=f"{letter}-log", namespace="default")))
            await asyncio.sleep(10)

    version = Version(before=make_objects)
    plan = assert_plan(state_of(Version()), operator=version.operator, rules=ALL, until=120)
    assert ConsequenceKind.NO_FIXPOINT in [each.kind for each in plan.consequences]


def test_a_run_does_not_look_like_a_test() -> None:
    """Programs leave out their configuration if unittest is imported."""
    code = "import sys, opsdk.testing.plans; sys.exit('unittest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_values_of_secrets_are_hidden() -> None:
    """A plan is pasted into pull requests: it has the names of the keys, and that their values differ."""
    old = Version(children=lambda name: [secret(name, password="hunter2", user="me")])
    new = Version(children=lambda name: [secret(name, password="hunter3", user="me", token="t0ken")])
    plan = assert_plan(state_of(old), operator=new.operator, rules=ALL)
    printed = str([(each.path, each.old, each.new) for change in plan.changes for each in change.differences])
    assert "data.password" in printed
    assert "(hidden, another value)" in printed
    assert not any(value in printed for value in ("aHVudGVy", "hunter", "t0ken", "dDBrZW4="))


@pytest.mark.slow
def test_an_external_system_without_a_double_fails() -> None:
    """The operator runs into it after the user's change; the message names the system."""

    async def create(client: Client) -> None:
        spec = ApplicationSpec(image="shop:1", host="shop.example.com")
        await client.create(Application(metadata=ObjectMeta(name="shop", namespace="default"), spec=spec))

    def on_the_network() -> Operator:
        return make_operator(DnsClient(httpx.AsyncClient(base_url="http://dns.example.com", timeout=10.0)))

    with pytest.raises(AssertionError, match=r"does not show everything: dns\.example\.com"):
        assert_plan(EMPTY_CLUSTER, operator=on_the_network, changes=[create])
    plan = assert_plan(EMPTY_CLUSTER, doubles=make_doubles, changes=[create])
    assert not plan.is_dangerous


async def test_a_plan_does_not_run_on_the_loop_of_a_test() -> None:
    """Its loop has a clock of its own. The message says what to do."""
    with pytest.raises(UsageError, match="not async"):
        assert_plan(EMPTY_CLUSTER, operator=OLD.operator, rules=ALL)


def test_a_plan_needs_an_operator_or_doubles() -> None:
    """Not both, and not neither."""
    with pytest.raises(UsageError, match="operator or doubles"):
        assert_plan(EMPTY_CLUSTER)
