"""``opsdk verify``: what it prints, and how it exits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from foreign_operators import DEFINITION
from processes import until

from envtest import Environment
from opsdk.cli.__main__ import main
from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.verify.inputs import OperatorInputs, fresh_operator
from opsdk.cli.verify.printed_tests import life_test, transition_test
from opsdk.cli.verify_transition import verify_transition
from opsdk.errors import ConfigError
from opsdk.verification.disturbances import DEFAULT_KINDS, DisturbanceKind
from opsdk.verification.exploration.bounds import Bounds
from opsdk.verification.exploration.explore import explore
from opsdk.verification.generated_run import GeneratedSummary
from opsdk.verification.guided_run import run_guided
from opsdk.verification.life.run import check_life

HEAD = """\
from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap


class SiteSpec(Model, kw_only=True):
    text: str = ""


class SiteStatus(Model, kw_only=True):
    text: str = ""


class Site(Object[SiteSpec, SiteStatus]):
    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")


operator = Operator("site")
starts = []


@operator.reconciler(Site, owns=[ConfigMap])
async def reconcile(site: Site, ctx: Context) -> None:
    child = ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": site.spec.text})
"""
GOOD = """\
    await ctx.apply(child)
    async with ctx.status(site) as patch:
        patch.status.text = site.spec.text
"""
BROKEN = """\
    if site.status is not None and site.status.text == site.spec.text:
        return
    async with ctx.status(site) as patch:
        patch.status.text = site.spec.text
    await ctx.apply(child)
"""
WORDS = ["verify", "sites_to_verify.py", "--operations", "4", "--disturbances", "16", "--parallel", "1"]


@pytest.fixture
def whole_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an operator in one file; each test writes it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "sites_to_verify", raising=False)
    return tmp_path / "sites_to_verify.py"


@pytest.fixture
def project(whole_project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, without the two processes with other hashes: test_process.py has their laws."""
    monkeypatch.setattr("opsdk.cli.verify.command.check_processes", lambda *_: None)
    return whole_project


UNSTRUCTURED = """\
from opsdk import Context, ObjectMeta, Operator, Unstructured
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import unstructured_kind

operator = Operator("site")


@operator.reconciler(unstructured_kind("demo.opsdk.dev/v1", "Site"))
async def reconcile(site: Unstructured, ctx: Context) -> None:
    text = site.get("spec", "text", default="")
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": str(text)}), owner=None)
"""


@pytest.mark.slow
def test_a_kind_without_a_class_has_a_definition(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file, which the printed test names too. Without it, the message says what to pass."""
    project.write_text(UNSTRUCTURED)
    assert main(WORDS) == 1
    assert "pass the definitions of kinds without a class with --crds" in capsys.readouterr().err
    Path("crd.yaml").write_text(yaml.safe_dump(DEFINITION))
    inputs, summary = OperatorInputs(operator=project.name, operations=4, definitions=["crd.yaml"]), GeneratedSummary()
    check_life(inputs.generated(), summary)
    (finding,) = summary.findings
    assert "configmaps default/example is left over after the deletion of default/example" in finding.differences
    assert "definitions=['crd.yaml'])" in life_test(inputs, finding)


def test_a_printed_test_runs_on_the_chosen_version(project: Path) -> None:
    """The version is among its arguments, and its server serves that version."""
    project.write_text(HEAD + GOOD)
    inputs = OperatorInputs(operator=project.name, kubernetes="1.35")
    assert inputs.options() == {"kubernetes": "1.35"}
    with pytest.raises(ConfigError, match=r"Kubernetes 1\.99 is newer"):
        verify_transition(project.name, [], kubernetes="1.99")
    served = inputs.generated().declared.environment()
    assert isinstance(served, Environment)
    assert served.kubernetes == "1.35"


@pytest.mark.slow
def test_a_correct_operator_survives(whole_project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 0; the last lines say what was left out, and how many disturbances of each kind were tried."""
    whole_project.write_text(HEAD + GOOD)
    assert main([*WORDS, "--junit", "verify.xml"]) == 0
    output = capsys.readouterr().out
    assert 'failures="0" errors="0" skipped="0"' in (whole_project.parent / "verify.xml").read_text()
    assert "Site: 4 operations" in output
    assert "runs without a disturbance (" in output
    assert "1 processes)" in output
    assert "crash_after" in output
    assert "left out: lose_lease and take_over: the operator elects no leader; set leader_election in its" in output
    assert "0 bugs" in output.splitlines()[-1]


def test_equal_runs_have_equal_transcripts(project: Path) -> None:
    """Each byte that the operator receives is the same, also of the ConfigMaps that the cluster itself publishes."""
    project.write_text(HEAD + GOOD)
    verification = OperatorInputs(operator=project.name, operations=1).generated()
    first, second = (run_guided(verification.declared, verification.workloads[0], seed=0) for _ in range(2))
    assert first.transcript == second.transcript
    assert b"GET /api/v1/configmaps?watch=true" in first.transcript


@pytest.mark.slow
def test_a_bug_is_shown_with_its_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 2; the disturbance, what followed, the operations that lead there, and a test.

    The test needs nothing but the file of the operator, and passes when the bug is gone.
    """
    project.write_text(HEAD + BROKEN)
    assert main([*WORDS, "--output", "json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["oracles"]["error check"] > 0
    assert report["findings"] == report["advice"] == []
    texts = [each["disturbance"] for each in report["broken"]]
    assert any(text.startswith(("crash_after write", "refuse write")) for text in texts)
    assert any("configmaps default/" in violation for each in report["broken"] for violation in each["violations"])
    assert all(each["workload"][-1].endswith("delete") for each in report["broken"])
    assert report["runs"]["crash_after"] > 0
    pasted = report["broken"][0]["test"]
    assert "configmaps default/" in run_pasted(pasted)
    project.write_text(HEAD + GOOD)
    assert not run_pasted(pasted)


def test_an_operator_without_kinds_is_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what to do instead."""
    text = HEAD.replace("reconciler(Site, owns=[ConfigMap])", "reconciler(ConfigMap)").replace(
        "site: Site", "site: ConfigMap"
    )
    project.write_text(text + "    return\n")
    assert main(WORDS) == 1
    assert "declares no kind of its own" in capsys.readouterr().err


def test_an_example_of_the_wrong_shape_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its path."""
    project.write_text(HEAD + GOOD)
    example = project.parent / "site.yaml"
    example.write_text("apiVersion: demo.opsdk.dev/v1\nkind: Site\nmetadata: {name: a}\nspec: {text: [1]}\n")
    assert main([*WORDS, "--example", str(example)]) == 1
    assert "spec.text" in capsys.readouterr().err


def test_a_process_that_starts_again_remembers_nothing(project: Path) -> None:
    """Each start imports the package anew, so variables of its modules begin with their first values."""
    project.write_text(HEAD + GOOD)
    first = fresh_operator("sites_to_verify.py")
    sys.modules["sites_to_verify"].starts.append(1)
    assert fresh_operator("sites_to_verify.py") is not first
    assert sys.modules["sites_to_verify"].starts == []


# ---------------------------------------------------------------- checks
@pytest.mark.slow
def test_a_check_is_a_rule_for_generated_workloads(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It holds at each rest, without a disturbance too; the violation is reported once."""
    project.write_text(HEAD + GOOD)
    check = "configmaps: self.data.text == ''"
    assert main([*WORDS[:2], "--operations", "1", "--disturbances", "1", "--check", "configmaps: has(self.data)"]) == 0
    capsys.readouterr()
    assert main([*WORDS, "--check", check]) == 2
    output = capsys.readouterr().out
    assert output.count("without a disturbance:") == output.count("  check: configmaps default/") == 1


@pytest.mark.parametrize("options", [[], ["--exhaustive"]])
def test_a_check_of_an_unknown_kind_is_an_error(
    project: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any run ends."""
    project.write_text(HEAD + GOOD)
    assert main([*WORDS, *options, "--check", "unicorns: true"]) == 1
    assert "name a kind of the operator" in capsys.readouterr().err


# ---------------------------------------------------------------- a second replica
ELECTS = HEAD.replace('Operator("site")', 'Operator("site", OperatorOptions(leader_election=True))').replace(
    "Operator\n", "Operator, OperatorOptions\n", 1
)
CLEANS = """\
    existing = await ctx.client.get_or_none(ConfigMap, site.metadata.name, namespace=site.metadata.namespace)
    if site.spec.text:
        await ctx.apply(child)
    elif existing is not None:
        await ctx.client.delete(existing, missing_ok=True)
"""


# Deep: test_take_over.py proves the disturbance, and this command runs for 25 s.
@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("kinds", [(DisturbanceKind.TAKE_OVER,), DEFAULT_KINDS], ids=["one", "all"])
def test_a_bug_of_a_standby_is_found_and_repeated(
    project: Path,
    kinds: Sequence[DisturbanceKind],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An operator that elects a leader runs with a second replica; so does the printed test."""
    monkeypatch.setattr("opsdk.cli.verify.command.DEFAULT_KINDS", kinds)
    project.write_text(ELECTS + CLEANS)
    assert main(["verify", project.name, "--operations", "3", "--output", "json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["with_standby"] == report["workloads"]
    broken = next(each for each in report["broken"] if each["disturbance"].startswith("take_over"))
    assert broken["replicas"] == 2
    assert "was deleted 1 times, without a fault 0 times" in run_pasted(broken["test"])
    project.write_text(ELECTS + GOOD)
    assert not run_pasted(broken["test"])


# ---------------------------------------------------------------- the outside
OUTSIDE = """\
    with socket.create_connection(("dns.example.com", 443)):
        pass
    await ctx.apply(child)
"""
REFUSED = (
    "the verification does not reach dns.example.com:443: declare doubles, "
    "or --allow-host dns.example.com (allowed_hosts)"
)


def test_a_connection_to_the_outside_is_named_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs with a refused connection are not judged; the status is 1, and one sentence says what to add."""
    project.write_text(f"import socket\n{HEAD}{OUTSIDE}")
    assert main(WORDS) == 1
    output = capsys.readouterr().out
    assert output.count("dns.example.com:443") == output.count(REFUSED) == 1
    assert "0 bugs" in output.splitlines()[-1]


def test_exhaustive_search_ends_at_a_connection_to_the_outside(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same sentence, as an error."""
    project.write_text(f"import socket\n{HEAD}{OUTSIDE}")
    assert main([*WORDS, "--exhaustive"]) == 1
    assert capsys.readouterr().err.count(REFUSED) == 1


ALLOWED = """\
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", 1))
"""


@pytest.mark.slow
def test_an_allowed_host_is_reached(project: Path) -> None:
    """Here nothing listens on it: the operator copes with that, and so do its runs."""
    project.write_text(f"import contextlib\nimport socket\n{HEAD}{ALLOWED}{GOOD}")
    words = ["verify", project.name, "--operations", "1", "--disturbances", "2", "--parallel", "1"]
    assert main(words) == 1
    assert main([*words, "--allow-host", "127.0.0.1"]) == 0


# ---------------------------------------------------------------- operators that cannot be verified as they are
BEATS = """\
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"at": str(monotonic())}))
    return Result(requeue_after=timedelta(seconds=20))
"""
NEEDS = """\
    await ctx.client.get(ConfigMap, "settings", namespace=site.metadata.namespace)
    await ctx.apply(child)
"""
ELSEWHERE = """\
    child.metadata.namespace = "shop-system"
    await ctx.apply(child, owner=None)
"""
THREADS = """\
    await asyncio.to_thread(sum, range(3))
    await ctx.apply(child)
"""
PATTERN = 'text: str = ""', "text: Annotated[str, Meta({})]"
ABSENT = "the operator writes into the namespace shop-system, which does not exist: add it with --example"
RESTLESS = "the operator does not come to rest"
MISSING = "the operator looks for ConfigMap default/settings, which nothing creates: add it with --example"
NOTHING = "spec.text has no value that the schema admits"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "meta", "options", "status", "sentence"),
    [
        pytest.param(BEATS, "", [], 0, RESTLESS, marks=pytest.mark.slow),
        (BEATS, "", ["--exhaustive"], 1, RESTLESS),
        (NEEDS, "", [], 2, MISSING),
        pytest.param(NEEDS, "", ["--exhaustive"], 1, MISSING, marks=pytest.mark.slow),
        (ELSEWHERE, "", [], 2, ABSENT),
        pytest.param(THREADS, "", [], 0, "Site: 1 operations", marks=pytest.mark.slow),
        (THREADS, "", ["--exhaustive"], 1, "the operator uses threads, which the copies of a process do not have"),
        (GOOD, "pattern='^[ab]{3}$', max_length=2", [], 1, NOTHING),
        (GOOD, "pattern='^[ab]{3}$', max_length=2", ["--exhaustive"], 1, NOTHING),
        (GOOD, "pattern='^(?=a)b$'", [], 1, "the schema of Site is not valid, correct it: v1.properties[spec]"),
    ],
)
def test_what_an_operator_needs_is_named(
    project: Path, *, body: str, meta: str, options: list[str], status: int, sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """In one sentence; the status is 1 if nothing was verified."""
    head = HEAD.replace(PATTERN[0], PATTERN[1].format(meta), 1) if meta else HEAD
    head = head.replace("owns=[ConfigMap]", "") if body in (BEATS, NEEDS) else head
    imports = "import asyncio\nfrom datetime import timedelta\nfrom typing import Annotated\nfrom msgspec import Meta\n"
    imports += "from opsdk import Result\nfrom opsdk.aio.clock import monotonic\n"
    project.write_text(imports + head.replace("-> None", "-> Result | None") + body)
    assert main(["verify", project.name, "--operations", "1", "--disturbances", "4", *options]) == status
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count(sentence) == 1


# ---------------------------------------------------------------- tests to paste
REMEMBERS = """\
    existing = await ctx.client.get_or_none(ConfigMap, site.metadata.name, namespace=site.metadata.namespace)
    child.data = {**({} if existing is None else existing.data), f"a{len(site.spec.text)}": ""}
    await ctx.apply(child)
"""
IGNORES = """\
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name)))
"""
LOSES = """\
    existing = await ctx.client.get_or_none(ConfigMap, site.metadata.name, namespace=site.metadata.namespace)
    try:
        await ctx.apply(child)
    except Exception:
        if existing is None:
            raise
"""


def run_pasted(test: str) -> str:
    """Run a pasted test. Returns the text of its failure; empty if it passes."""
    names: dict[str, Callable[[], None]] = {}
    exec(test, names)
    (function,) = (value for name, value in names.items() if name.startswith("test_"))
    try:
        function()
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "place", "text"),
    [
        (REMEMBERS, "findings", "path independence: "),
        pytest.param(IGNORES, "findings", "spec.text changes, and no object", marks=pytest.mark.deep),
        pytest.param(LOSES, "broken", "configmaps default/", marks=pytest.mark.deep),
    ],
    ids=["path", "field", "refusal"],
)
def test_a_pasted_test_fails_while_the_bug_is_there(
    project: Path, body: str, place: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It needs nothing but the file of the operator, and passes when the bug is gone."""
    project.write_text(HEAD + body)
    # The budget of disturbances matters for what a disturbance breaks.
    budget = WORDS[-4:] if place == "findings" else []
    assert main(["verify", project.name, "--operations", "3", *budget, "--output", "json"]) == 2
    test = json.loads(capsys.readouterr().out)[place][0]["test"]
    assert text in run_pasted(test)
    project.write_text(HEAD + GOOD)
    assert not run_pasted(test)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 7])
def test_a_pasted_schedule_fails_while_the_bug_is_there(project: Path, seed: int) -> None:
    """Of an exhaustive search, in the order of tasks that it had."""
    project.write_text(HEAD + BROKEN)
    inputs = OperatorInputs(operator=project.name, exhaustive=True, operations=3, seed=seed)
    verification = inputs.generated()
    run = verification.runs[-1]
    bounds = Bounds(crashes=1, stale_views=0, deviations=0)
    broken = explore(verification.declared, run.workload, bounds, order=seed or None).counterexamples[0]
    test = transition_test(inputs, "exhaustive", run.transition(), schedule=broken.schedule)
    assert ("order=7" in test) is bool(seed)
    assert "configmaps default/" in run_pasted(test)
    project.write_text(HEAD + GOOD)
    assert not run_pasted(test)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads the processes of Linux from /proc")
@pytest.mark.parametrize(
    "words", [["--exhaustive"], ["--operations", "20", "--disturbances", "2000"]], ids=["exhaustive", "guided"]
)
def test_sigterm_ends_all_processes(project: Path, words: list[str]) -> None:
    """Copies of the command search in other processes, which end with it."""
    project.write_text(HEAD + GOOD)
    mark = f"{600 + os.getpid() / 1e6}"
    command = [sys.executable, "-m", "opsdk.cli", *WORDS, "--parallel", "2", "--time-limit", mark, *words]

    def running() -> int:
        return sum(mark.encode() in line for line in map(_command_line, Path("/proc").glob("[0-9]*")))

    log = project.parent / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        until(lambda: running() > 2, log)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    until(lambda: not running(), log)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""  # it has ended


@pytest.mark.slow
def test_a_verification_that_ran_out_of_time_says_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 4 if a part was left out, 1 if nothing was attacked. What was left is named by kind."""
    project.write_text(HEAD + GOOD)
    words = ["verify", project.name, "--parallel", "1"]
    assert main([*words, "--time-limit", "1"]) in (ExitStatus.ERROR, ExitStatus.UNFINISHED)
    text = capsys.readouterr().out
    assert "nothing was attacked" in text or "unfinished: pass a longer --time-limit" in text
    assert "0 bugs" in text
