"""``opsdk replay`` on recordings of simulated runs, from a file, with the operator in a module."""

from __future__ import annotations

import importlib
import io
import json
import math
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from opsdk import ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import deep_copy
from opsdk.cli.__main__ import main
from opsdk.cli.replay.cut import write_cut
from opsdk.client.patch import MergeFrom
from opsdk.engine.snapshot import ClusterSnapshot, read_snapshot
from opsdk.errors import NotFoundError, UsageError
from opsdk.testing.simulate import Simulation, Step, World
from opsdk.testing.simulation.recorded_starts import RecordedStart

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

OPERATOR = """
from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.rbac.rules import RbacRule

operator = Operator("copier")

@operator.reconciler(ConfigMap, rbac=[RbacRule("create patch", "configmaps")])
async def reconcile(source: ConfigMap, ctx: Context) -> None:
    if not source.metadata.name.startswith("source"):
        return
    meta = ObjectMeta(name="copy-of-" + source.metadata.name)
    await ctx.apply(ConfigMap(metadata=meta, data={"text": source.data["text"].upper()}))
"""


async def make_source(world: World) -> None:
    """Create an object to copy."""
    meta = ObjectMeta(name="source", namespace="default")
    await world.client.create(ConfigMap(metadata=meta, data={"text": "hello"}))


async def break_source(world: World) -> None:
    """Take away what the operator needs."""
    source = await world.client.get(ConfigMap, "source", namespace="default")
    before = deep_copy(source)
    source.data = {"other": "hello"}
    await world.client.patch(source, MergeFrom(before))


async def nothing_to_check(world: World) -> None:
    """Accept every end: the run is recorded for its middle."""
    try:
        await world.client.get(ConfigMap, "source", namespace="default")
    except NotFoundError:
        return


def make_operator() -> Operator:
    """Return a new operator of the program."""
    names: dict[str, object] = {"__name__": "replayed_copier"}
    exec(OPERATOR, names)
    operator = names["operator"]
    assert isinstance(operator, Operator)
    return operator


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the recording of an operator whose source is created and broken."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    (tmp_path / "replayed_copier.py").write_text(OPERATOR)
    path = tmp_path / "night.opsdk-recording"
    record_copier().write(path)
    return path


def record_copier(checkpoint_period: float = math.inf) -> RecordedStart:
    """Record an operator whose source is created after five seconds, and broken after ten."""
    simulation = Simulation(
        operator=make_operator,
        environment=environment.Environment,
        actions=[make_source, break_source],
        check=nothing_to_check,
        replicas=1,
    )
    steps = [Step(time=5.0, name="make_source"), Step(time=10.0, name="break_source")]
    _, starts = simulation.record(1, steps, checkpoint_period=checkpoint_period)
    return starts[0]


@pytest.fixture
def checkpoints(recording: Path) -> Path:
    """Return a directory with a recording whose start is gone. Each file begins with a checkpoint."""
    directory = recording.parent / "ring"
    directory.mkdir()
    starts = record_copier(4.0).checkpoints()
    for number, (start, end) in enumerate(pairwise(starts), 1):
        part = RecordedStart(records=start.records[: len(start.records) - len(end.records) + 1])
        part.write(directory / f"copier-1-{number:06}.opsdk-recording")
    starts[-1].write(directory / f"copier-1-{len(starts):06}.opsdk-recording")
    return directory


@pytest.fixture
def replay(recording: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that runs the command, and returns its status and output."""

    def run(*arguments: str) -> tuple[int, str]:
        status = main(["replay", str(recording), "replayed_copier:operator", *arguments])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def test_the_summary_names_the_error(replay: Callable[..., tuple[int, str]]) -> None:
    """And says that the replay is identical."""
    status, text = replay()
    assert status == 0
    assert "requests are identical" in text
    assert "KeyError('text')" in text
    assert "copier from 2026-01-01T00:00:" in text


def test_a_reconcile_and_its_causes(replay: Callable[..., tuple[int, str]]) -> None:
    """Causes are followed back to the write of another client, by its field manager."""
    _, listed = replay("--list", "reconciles")
    number = next(line.partition(" ")[0][1:] for line in listed.splitlines() if "copy-of-source: success" in line)
    _, text = replay("--to-reconcile", number)
    assert f"reconcile #{number}" in text
    assert "ConfigMap create default/copy-of-source at" in text
    assert "apply v1, Kind=ConfigMap default/copy-of-source: 200" in text
    assert "written by user" in text


def test_a_write_with_its_reconcile(replay: Callable[..., tuple[int, str]]) -> None:
    """It stops before the response."""
    status, text = replay("--to-write", "1")
    assert status == 0
    assert "write #1: PATCH /api/v1/namespaces/default/configmaps/copy-of-source " in text
    assert '"text":"HELLO"' in text


@pytest.mark.parametrize(
    ("place", "hint"),
    [
        (("--to-reconcile", "500"), "there is no reconcile #500"),
        (("--to-write", "500"), "there is no write #500"),
        (("--to-time", "23:00:00"), "it ended at 2026-01-01T00:"),
        (("--to-time", "5000000"), "it ended at 2026-01-01T00:"),
    ],
)
def test_a_place_after_the_end_is_named(
    replay: Callable[..., tuple[int, str]], place: tuple[str, str], hint: str
) -> None:
    """The replay stops at the end, and says how much the recording has. A place that it has needs no hint."""
    _, listed = replay("--list", "reconciles")
    status, text = replay(*place)
    assert status == 0
    count = len(re.findall(r"^#\d+ ", listed, re.MULTILINE))
    (line,) = (line for line in text.splitlines() if line.startswith("at the end"))
    assert re.match(rf"at the end of the recording: {count} reconciles, \d+ writes; {hint}", line)
    assert ";" not in next(each for each in replay("--to-reconcile", "1")[1].splitlines() if each.startswith("at "))


@pytest.mark.parametrize(("time", "word"), [("8", "text: hello"), ("00:00:20", "other: hello")])
def test_an_object_at_a_time(replay: Callable[..., tuple[int, str]], time: str, word: str) -> None:
    """As the cache of the operator had it."""
    status, text = replay("--to-time", time, "--show", "ConfigMap/default/source")
    assert status == 0
    assert word in text


def test_a_failed_reconcile_names_its_line(replay: Callable[..., tuple[int, str]]) -> None:
    """The traceback begins in the operator's code. A reconcile that succeeds has none."""
    _, listed = replay("--list", "reconciles")
    number = {result: re.findall(rf"^#(\d+) .*: {result}", listed, re.MULTILINE)[0] for result in ("success", "error")}
    _, text = replay("--to-reconcile", number["error"])
    stack = text.partition("raised in\n")[2].splitlines()
    assert [line.rpartition(",")[2] for line in stack if line.startswith("  File")][:1] == [" in reconcile"]
    assert 'source.data["text"].upper()' in stack[1]
    assert "raised in" not in replay("--to-reconcile", number["success"])[1]


def test_a_plan_of_a_place_follows_its_name(replay: Callable[..., tuple[int, str]]) -> None:
    """What led to the place is left out: a reader of a plan or of a test has seen it."""
    place = ("--to-reconcile", "2")
    assert "caused by" in replay(*place)[1]
    _, text = replay(*place, "--save", "state.snapshot.gz")
    assert "reconcile #2" in text
    assert "caused by" not in text


def test_an_object_is_shown_without_managed_fields(replay: Callable[..., tuple[int, str]]) -> None:
    """They are most of an object's lines, and kubectl hides them too. The JSON output has the whole object."""
    place = ("--to-time", "8", "--show", "ConfigMap/default/source")
    assert "managedFields" not in replay(*place)[1]
    assert json.loads(replay(*place, "--output", "json")[1])["object"]["metadata"]["managedFields"]


def test_an_operator_that_does_not_load_is_an_error(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error has the line that fails, and no task ends with an exception that nothing reads."""
    program = Path("replayed_copier.py")
    program.write_text(f"import missing_module\n{OPERATOR}")
    for options in ([], ["--save", "state.snapshot.gz"]):
        assert main(["replay", str(recording), "replayed_copier:operator", *options]) == 1
        text = capsys.readouterr().err
        assert text.startswith("opsdk: 'replayed_copier' cannot be loaded: ")
        assert "replayed_copier.py:1: ModuleNotFoundError: No module named 'missing_module'" in text


def test_other_code_differs(replay: Callable[..., tuple[int, str]]) -> None:
    """The status says so, and the first request that differs is named."""
    program = Path("replayed_copier.py")
    program.write_text(OPERATOR.replace(".upper()", ".title()"))
    status, text = replay()
    assert status == 3
    assert "another body: PATCH /api/v1/namespaces/default/configmaps/copy-of-source" in text


def test_json_has_the_same(replay: Callable[..., tuple[int, str]]) -> None:
    """For programs."""
    status, text = replay("--output", "json", "--list", "writes", "--show", "ConfigMap/default/source")
    result = json.loads(text)
    assert status == 0
    assert result["requests"] == result["identical"] > 5
    assert result["list"][0]["write"].startswith("PATCH /api/v1/namespaces/default/configmaps/copy-of-source")
    assert result["object"]["data"] == {"other": "hello"}


def test_steps_forward_and_back(replay: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command moves or shows; a wrong one says what to write."""
    commands = "next 2\nback\nlist\nwrite\ncauses\nshow Pod/a/b\ntime x\nend\nsummary\nquit\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    status, text = replay("--step")
    assert status == 0
    assert text.index("reconcile #3") < text.index("reconcile #2")
    assert "PATCH /api/v1/namespaces/default/configmaps/copy-of-source" in text
    assert "the operator has no Pod/a/b there: write KIND/NAMESPACE/NAME" in text
    assert "write: time SECONDS" in text
    assert "at the end of the recording" in text
    assert "KeyError('text')" in text
    assert "raised in" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to-time", "noon"), "--to-time is 'noon': write seconds"),
        (("--to-time", "3", "--to-write", "1"), "pass one of them"),
        (("--until", "3"), "pass one of them, or --to-time"),
        (("--until", "noon", "--with", "x:y"), "--until is 'noon': write seconds"),
        (("--show", "Secret/a/b"), "the operator has no Secret/a/b there"),
        (("--to-time", "0"), "the operator has not started there: name a later place"),
    ],
)
def test_wrong_options(replay: Callable[..., tuple[int, str]], arguments: tuple[str, ...], message: str) -> None:
    """The message says what to write."""
    status, text = replay(*arguments)
    assert status == 1
    assert message in text


def test_a_file_that_is_cut_off(replay: Callable[..., tuple[int, str]], recording: Path) -> None:
    """What can be replayed is, and the rest is said."""
    content = recording.read_bytes()
    recording.write_bytes(content[: len(content) // 2])
    status, text = replay()
    assert status == 0
    assert "has no end: the process was killed, or still writes it" in text
    assert "requests are identical" in text


def test_files_that_are_no_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what to give."""
    (tmp_path / "a.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "a.txt", tmp_path / "missing"):
        assert main(["replay", str(path)]) == 1
    error = capsys.readouterr().err
    assert "has no recording: start the operator with --recording-dir" in error
    assert "this is no recording of opsdk" in error
    assert "does not exist" in error


def test_another_version_is_planned_from_there(
    replay: Callable[..., tuple[int, str]], recording: Path, tmp_path: Path
) -> None:
    """The repaired version does what the recorded one failed to do, from the state at its failure."""
    repaired = OPERATOR.replace('source.data["text"]', 'source.data.get("text", "nothing")')
    (tmp_path / "repaired_copier.py").write_text(repaired)
    _, listed = replay()
    number = re.findall(r"the first is #(\d+)", listed)[0]
    status, text = replay("--to-reconcile", number, "--with", "repaired_copier:operator")
    assert status == 2, text
    assert "data.text: 'HELLO' -> 'NOTHING'" in text
    _, text = replay("--to-reconcile", number, "--with", "replayed_copier:operator")
    assert "its reconcile fails, also at the end" in text
    assert "KeyError" in text


def test_the_state_is_a_snapshot_for_plans(replay: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """With the objects as they were then."""
    status, text = replay("--to-time", "8", "--save", "then.snapshot.gz")
    assert status == 0
    assert "wrote then.snapshot.gz" in text
    state = read_snapshot((tmp_path / "then.snapshot.gz").read_bytes())
    sources = [each for each in state.objects_of(ConfigMap) if each.metadata.name == "source"]
    assert sources[0].data == {"text": "hello"}
    assert state.taken_at.startswith("2026-01-01T00:00:0")


def test_a_cut_is_a_test_that_fails_until_the_operator_is_repaired(
    replay: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """It begins with the state of the failure, and needs no recording."""
    _, listed = replay()
    number = re.findall(r"the first is #(\d+)", listed)[0]
    test = tmp_path / "test_night.py"
    _, text = replay("--to-reconcile", number, "--cut", str(test))
    assert f"wrote {test}, {test.with_suffix('.snapshot.gz')}" in text
    assert "KeyError('text')" in test.read_text().splitlines()[0]
    with pytest.raises(AssertionError, match="KeyError"):
        run_test(test)
    (tmp_path / "replayed_copier.py").write_text(OPERATOR.replace('source.data["text"]', 'source.data.get("text", "")'))
    run_test(test)


def run_test(path: Path) -> None:
    """Run the test of a file, with a new import of its operator."""
    sys.modules.pop("replayed_copier", None)
    importlib.invalidate_caches()
    names: dict[str, Any] = {"__file__": str(path), "__name__": path.stem}
    exec(path.read_text(), names)
    names["test_the_operator_deals_with_the_state"]()


@pytest.mark.parametrize(("operator", "path"), [("copier.py", "test_a.py"), ("a:b", "test_a.txt")])
def test_a_cut_needs_a_module_and_a_python_file(operator: str, path: str, tmp_path: Path) -> None:
    """The message says how to write it."""
    state = ClusterSnapshot(taken_at="2026-01-01T00:00:00Z")
    with pytest.raises(UsageError, match=r"write MODULE:NAME|--cut is .*: name a Python file"):
        write_cut(tmp_path / path, state, reference=operator, namespace="default", place="here")


def test_a_replay_from_a_checkpoint(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory is replayed from the oldest place, and a file from the place in it. Retries go on, and not anew."""
    files = sorted(checkpoints.iterdir())
    for path, has_first in ((checkpoints, True), (files[0], True), (files[3], False)):
        assert main(["replay", str(path), "replayed_copier:operator", "--list", "reconciles"]) == 0
        text = capsys.readouterr().out
        assert "copier from a checkpoint at 2026-01-01T00:0" in text
        assert ("error: retry in 0.005 s: KeyError('text')" in text) == has_first
        assert "error: retry in 81.9 s: KeyError('text')" in text
        assert "requests are identical" in text


def test_a_checkpoint_of_another_operator(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says which part of its state the operator has not."""
    (checkpoints.parent / "another.py").write_text(OPERATOR.replace("(ConfigMap, rbac", "(ConfigMap, name='b', rbac"))
    assert main(["replay", str(checkpoints), "another:operator"]) == 1
    error = capsys.readouterr().err
    assert "the replay cannot begin with the checkpoint" in error
    assert "the operator has no controller configmap, which the recording has" in error


def test_files_without_a_place_to_begin(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint that is cut off is none. With another one, the replay begins there, and says so."""
    first, *others = sorted(checkpoints.iterdir())
    first.write_bytes(first.read_bytes()[:400])
    assert main(["replay", str(checkpoints), "replayed_copier:operator"]) == 0
    assert (
        f"the replay begins with {others[0].name}: the files before it have no place to begin"
        in capsys.readouterr().out
    )
    for other in others:
        other.unlink()
    assert main(["replay", str(checkpoints), "replayed_copier:operator"]) == 1
    assert "no file that is left has the start of the process or a checkpoint" in capsys.readouterr().err
