"""``opsdk plan --against``: what this version does and another one does not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from documentation import ROOT
from planned_scenarios import SCENARIOS
from planned_worlds import world_of
from processes import until
from slow_cases import mostly_deep, mostly_slow

from opsdk import Client, Model, Object, ObjectMeta, Operator
from opsdk.cli.__main__ import main
from opsdk.engine.differences import Difference
from opsdk.engine.plan import ChangeAction, Consequence, ConsequenceKind, Plan, PlannedChange, PlannedObject, Severity
from opsdk.engine.plan_difference import subtract_plan
from opsdk.engine.plan_text import markdown_lines, text_lines
from opsdk.engine.snapshot import ClusterSnapshot, write_snapshot
from opsdk.testing.doubles import EMPTY_CLUSTER
from tests.engine.upgrade_cases import ACCIDENTS, HARMLESS
from tests.engine.upgrades import App, AppSpec, AppStatus, Version, state_of
from tests.engine.versions import GREETER, GREETING, MODULE, OtherVersion, plan_against, write_project, write_wheel

NEW_GREETER = GREETER.replace("Hello", "Good morning")
FAKES = f"""\
from {MODULE} import operator
from opsdk.testing.doubles import ClusterSnapshot, Doubles


def make_doubles(snapshot: ClusterSnapshot) -> Doubles[None]:
    return Doubles(operator=lambda: operator, systems=None)
"""
# test_upgrades.py has the consequence of each upgrade on a cluster of the old version.
_DEEP = [pytest.mark.slow, pytest.mark.deep]
FIRST_UUID, SECOND_UUID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


# ---------------------------------------------------------------- in this process
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=_DEEP)])
@pytest.mark.parametrize("name", mostly_slow(SCENARIOS, every=3))
def test_a_version_against_itself_has_an_empty_plan(name: str, seed: int) -> None:
    """In a random world, with a random change of a user."""
    snapshot, change = world_of(SCENARIOS[name], seed)

    def create(state: ClusterSnapshot) -> Operator:
        return SCENARIOS[name].factory(state)()

    plan = plan_against(create, create, snapshot, changes=[change])
    assert plan.is_empty, "\n".join(line.text for line in text_lines(plan))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number % 5 == 1 else _DEEP)
        for upgrades in (ACCIDENTS, HARMLESS)
        for number, name in enumerate(upgrades)
    ],
)
def test_an_upgrade_is_planned_on_a_cluster_that_no_version_touched(name: str) -> None:
    """An accident is dangerous, a harmless upgrade is not, and the old version against itself is empty."""
    upgrade = {**ACCIDENTS, **HARMLESS}[name]
    state = state_of(Version(kind=upgrade.old.kind), apps=upgrade.apps, more=upgrade.more)
    other = OtherVersion(lambda _: upgrade.old.operator(), state)
    plan = other.plan_of(lambda _: upgrade.new.operator(), rules=upgrade.new.rules)
    dangers = {each.kind for each in plan.consequences if each.severity is Severity.DANGER}
    assert (upgrade.kind in dangers) if upgrade.kind is not None else not dangers
    assert other.plan_of(lambda _: upgrade.old.operator()).is_empty


@pytest.mark.slow
def test_a_version_that_loops_against_itself_has_an_empty_plan() -> None:
    """What both versions do wrong is not a difference."""
    looping = ACCIDENTS["a child has the time"].new
    assert plan_against(lambda _: looping.operator(), lambda _: looping.operator(), state_of(Version())).is_empty


def test_webhooks_of_the_other_version_are_not_unseen() -> None:
    """Its own run served them. They end with it, and this version brings its own."""
    scenario = SCENARIOS["databases"]

    def create(state: ClusterSnapshot) -> Operator:
        return scenario.factory(state)()

    assert create(EMPTY_CLUSTER).has_webhooks
    plan = plan_against(create, create, EMPTY_CLUSTER)
    assert plan.is_empty
    assert not plan.unseen


def test_a_change_that_only_this_version_refuses_is_dangerous() -> None:
    """The definition of this version does not allow what that of the other one does."""

    async def create(client: Client) -> None:
        await client.create(App(metadata=ObjectMeta(name="app-9", namespace="default"), spec=AppSpec(image="")))

    strict = Version(kind=StrictApp)
    plan = plan_against(
        lambda _: Version().operator(), lambda _: strict.operator(), state_of(Version()), changes=[create]
    )
    assert {(each.kind, each.subject) for each in plan.consequences} >= {(ConsequenceKind.REFUSED, "your change")}


class StrictSpec(Model):
    """A spec that needs the name of an image."""

    image: Annotated[str, msgspec.Meta(min_length=1)] = "app:1"
    backup: str = ""


class StrictApp(Object[StrictSpec, AppStatus]):
    """An App in a definition that allows less."""

    gvk = App.gvk


def _plan(*changes: PlannedChange, consequences: tuple[Consequence, ...] = (), collected: tuple[str, ...] = ()) -> Plan:
    objects = [PlannedObject(controller="apps", subject="App default/a", changes=[each]) for each in changes]
    return Plan(
        operator="apps",
        taken_at="",
        server_version="",
        objects=objects,
        consequences=consequences,
        collected=collected,
    )


def _change(*differences: Difference, action: ChangeAction = ChangeAction.UPDATE, name: str = "a") -> PlannedChange:
    return PlannedChange(
        action=action, kind="ConfigMap", api_version="v1", namespace="default", name=name, differences=differences
    )


def test_a_field_goes_from_the_end_of_the_other_version_to_that_of_this_one() -> None:
    """Fields with equal ends are left out; a field that one version leaves alone ends as it began."""
    own = _change(Difference("data.a", "0", "2"), Difference("data.b", "0", "1"), Difference("data.c", "0", "1"))
    other = _change(Difference("data.a", "0", "1"), Difference("data.b", "0", "1"), Difference("data.d", "0", "1"))
    [planned] = subtract_plan(_plan(own), _plan(other), against="1.0").objects
    assert list(map(str, planned.changes[0].differences)) == [
        "data.a: '1' -> '2'",
        "data.c: '0' -> '1'",
        "data.d: '1' -> '0'",
    ]


def test_another_action_is_shown_as_it_is() -> None:
    """An object that this version deletes, and the other one updates, is deleted."""
    own = _change(action=ChangeAction.DELETE)
    plan = subtract_plan(_plan(own), _plan(_change(Difference("data.a", "0", "1"))), against="1.0")
    assert list(plan.changes) == [own]


def test_what_only_the_other_version_does_is_named() -> None:
    """The plan is not empty, in each form of output."""
    plan = subtract_plan(_plan(), _plan(_change(action=ChangeAction.CREATE, name="extra")), against="1.0")
    assert not plan.is_empty
    for lines in ([line.text for line in text_lines(plan)], list(markdown_lines(plan))):
        assert "against 1.0" in lines[0]
        assert any("Only 1.0 does this" in line for line in lines)
        assert any("create ConfigMap default/extra" in line for line in lines)


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ({"at": "2026-11-24T10:00:00Z"}, {"at": "2026-11-24T11:30:00.25+01:00"}),
        ({"owners": [{"uid": "a"}]}, {"owners": [{"uid": "b"}]}),
        ({"clusterIP": "10.0.0.1", "ports": [{"nodePort": 1}]}, {"clusterIP": "10.0.0.2", "ports": [{"nodePort": 2}]}),
        ({"id": f"site-{FIRST_UUID}"}, {"id": f"site-{SECOND_UUID}"}),
    ],
)
def test_values_that_differ_in_each_run_are_equal(own: dict[str, object], other: dict[str, object]) -> None:
    """Times, uids and what the server assigns: two runs of two versions write them at other times."""
    plans = [_plan(_change(Difference("spec", None, value), action=ChangeAction.CREATE)) for value in (own, other)]
    assert subtract_plan(*plans, against="1.0").is_empty


def test_a_headless_service_differs_from_one_with_an_address() -> None:
    """The operator chooses the address None."""
    headless, assigned = (
        _plan(_change(Difference("spec.clusterIP", None, value), action=ChangeAction.CREATE))
        for value in ("None", "10.0.0.1")
    )
    assert not subtract_plan(headless, assigned, against="1.0").is_empty


def test_generated_names_are_told_apart_by_their_order() -> None:
    """One more object with a generated name is a difference."""
    changes = [
        msgspec.structs.replace(
            _change(Difference("metadata.name", None, f"a-{suffix}"), action=ChangeAction.CREATE, name=f"a-{suffix}"),
            generate_name="a-",
        )
        for suffix in "xyz"
    ]
    assert subtract_plan(_plan(changes[0]), _plan(changes[1]), against="1.0").is_empty
    assert list(subtract_plan(_plan(*changes[:2]), _plan(changes[2]), against="1.0").changes) == [changes[1]]


def test_a_deletion_that_the_garbage_collector_makes_in_the_other_run_is_equal() -> None:
    """The end counts: an object that goes with its owner goes in both."""
    deleted = _plan(_change(action=ChangeAction.DELETE))
    collected = _plan(collected=("ConfigMap default/a",))
    assert subtract_plan(deleted, collected, against="1.0").is_empty
    assert subtract_plan(collected, deleted, against="1.0").is_empty


def test_a_consequence_of_both_versions_is_left_out() -> None:
    """Its counts depend on how long the runs took; another subject or severity is another consequence."""

    def fight(subject: str, message: str) -> Plan:
        each = Consequence(kind=ConsequenceKind.FIGHT, severity=Severity.DANGER, subject=subject, message=message)
        return _plan(consequences=(each,))

    own, other = fight("Service default/a", "7 turns"), fight("Service default/a", "9 turns")
    assert subtract_plan(own, other, against="1.0").is_empty
    assert subtract_plan(own, fight("Service default/b", "7 turns"), against="1.0").is_dangerous


# ---------------------------------------------------------------- the command, before a process starts
@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a new greeter, beside the file of an empty cluster and of a greeting."""
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    (tmp_path / "empty.snapshot").write_bytes(write_snapshot(EMPTY_CLUSTER))
    (tmp_path / "greeting.yaml").write_text(GREETING)
    folder = write_project(tmp_path / "new", NEW_GREETER)
    monkeypatch.chdir(folder)
    return folder


def _empty_folder(folder: Path) -> str:
    folder.mkdir()
    return "neither pyproject.toml, as a checkout has, nor bin/python"


def _no_folder(_: Path) -> str:
    return "there is no such folder or wheel"


@pytest.mark.parametrize("prepare", [_no_folder, _empty_folder])
def test_a_version_that_is_not_there_is_named(
    project: Path, prepare: Callable[[Path], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what a version can be."""
    message = prepare(project.parent / "old")
    assert main(["plan", "--snapshot", "../empty.snapshot", "--against", "../old"]) == 1
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------- the command, with real processes
def _opsdk_plan(folder: Path, version: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``opsdk plan --against`` on an empty cluster in a folder."""
    return subprocess.run(
        _command(version, *words),
        cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def _command(version: str, *words: str) -> list[str]:
    command = [sys.executable, "-m", "opsdk.cli", "plan", "--snapshot", "../empty.snapshot", "--all-permissions"]
    return [*command, "--against", version, *words]


def _checkout(folder: Path, source: str = GREETER) -> str:
    write_project(folder, source)
    return "../old"


def _sources(folder: Path) -> str:
    """Write a project with its module in ``src``."""
    write_project(folder)
    (folder / "src").mkdir()
    (folder / f"{MODULE}.py").rename(folder / "src" / f"{MODULE}.py")
    return "../old"


def _wheel(folder: Path) -> str:
    folder.mkdir()
    return f"../old/{write_wheel(folder).name}"


def _environment(folder: Path, source: str = GREETER) -> str:
    """Make a virtual environment with the packages of this one and with the greeter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "these.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    (packages / f"{MODULE}.py").write_text(source)
    return "../old"


FAKE_DOCKER = """#!/bin/sh
echo "$@" >> {calls}
case "$1 $2" in
"run --rm")
  [ "$7" = shop:1.0 ] || {{ echo "no such image" >&2; exit 125; }}
  shift 7; cd {files} && exec {python} "$@" ;;
"create shop:1.0") echo 4c01db0b339c ;;
"cp 4c01db0b339c:"*) cp -r "${{2#*:}}" "$3" ;;
"rm 4c01db0b339c") ;;
*) exit 9 ;;
esac
"""
"""A docker with one image, whose files are in a folder."""


def _image(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder.mkdir()
    (folder / f"{MODULE}.py").write_text(GREETER)
    docker = folder.parent / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(FAKE_DOCKER.format(calls=folder.parent / "calls", files=folder, python=sys.executable))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}{os.pathsep}{os.environ['PATH']}")
    return "image:shop:1.0"


@pytest.mark.slow
def test_an_image_is_planned(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module is copied out of a container, which is removed; no code of it runs in the container."""
    done = _opsdk_plan(project, _image(tmp_path / "old", monkeypatch), "-f", "../greeting.yaml")
    assert done.returncode == 2, done.stderr
    assert "data.text: 'Hello World!' -> 'Good morning World!'" in done.stdout
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [line.split()[0] for line in calls if line and line.split()[0] in ("run", "create", "cp", "rm")] == [
        "run", "create", "cp", "rm",
    ]  # fmt: skip
    assert "--network none" in calls[0]


@pytest.mark.parametrize(
    ("image", "files", "message"),
    [
        ("image:shop:2.0", [f"{MODULE}.py"], "the image does not run its python: it ended with status 125"),
        ("image:shop:1.0", [], f"the image has no module {MODULE}: name another operator"),
        ("image:--privileged", [f"{MODULE}.py"], "there is no such image: write image:NAME:TAG"),
    ],
)
def test_an_image_that_cannot_be_planned_is_an_error(
    project: Path, *, image: str, files: list[str], message: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The message says what is missing; nothing is an option of docker."""
    old = project.parent / "old"
    _image(old, monkeypatch)
    for file in old.iterdir():
        if file.name not in files:
            file.unlink()
    assert main(["plan", "--snapshot", "../empty.snapshot", "--against", image]) == 1
    assert message in capsys.readouterr().err


def test_an_image_needs_docker_or_podman(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names them, and the other way."""
    monkeypatch.setenv("PATH", str(project))
    assert main(["plan", "--snapshot", "../empty.snapshot", "--against", "image:shop:1.0"]) == 1
    assert "neither docker nor podman is installed: install one, or name a wheel" in capsys.readouterr().err


def _git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=tests", "-c", "user.email=tests@example.com"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, timeout=60)


def _revision(folder: Path) -> str:
    """Commit the old version in the repository of the new one, which is a folder in it."""
    top, new = folder.parent, folder.parent / "new"
    _git(top, "init", "--quiet")
    write_project(new)
    _git(top, "add", "new")
    _git(top, "commit", "--quiet", "--message", "old")
    write_project(new, NEW_GREETER)
    return "git:HEAD"


@pytest.mark.slow
@pytest.mark.parametrize("prepare", mostly_deep([_checkout, _sources, _wheel, _environment, _revision], every=2))
def test_each_kind_of_version_is_planned(project: Path, tmp_path: Path, prepare: Callable[[Path], str]) -> None:
    """The plan has the text that differs, and nothing of what both versions do; no file stays."""
    version = prepare(tmp_path / "old")
    (tmp_path / "temporary").mkdir()
    done = _opsdk_plan(project, version, "-f", "../greeting.yaml", TMPDIR=str(tmp_path / "temporary"))
    assert done.returncode == 2, done.stderr
    assert f"Plan of greeter against {version}" in done.stdout.splitlines()[0]
    assert "data.text: 'Hello World!' -> 'Good morning World!'" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 to create."
    assert list((tmp_path / "temporary").glob("opsdk-*")) == []
    assert list(tmp_path.glob("old/__pycache__")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    mostly_deep(["a label restarts a StatefulSet", "a claim is pruned", "a password is generated again"], every=3),
)
def test_an_accident_is_dangerous_between_two_checkouts(project: Path, tmp_path: Path, name: str) -> None:
    """Status 3: the old checkout makes the state, the new one the accident."""
    source = "from tests.engine.upgrade_cases import ACCIDENTS\n\noperator = ACCIDENTS[{name!r}].{version}.operator()\n"
    for folder, version in ((tmp_path / "old", "old"), (project, "new")):
        write_project(folder, source.format(name=name, version=version))
    app = tmp_path / "app.yaml"
    app.write_text(
        "apiVersion: apps.example.com/v1\nkind: App\nmetadata: {name: app-0, namespace: default}\nspec: {}\n"
    )
    support = str(ROOT / "tests" / "support")
    words = ["--save", "../with-app.snapshot", "--file", "../app.yaml"]
    _opsdk_plan(tmp_path / "old", "../old", *words, PYTHONPATH=support)
    shutil.copy(tmp_path / "with-app.snapshot", tmp_path / "empty.snapshot")
    done = _opsdk_plan(project, "../old", PYTHONPATH=support)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "Danger: " in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("prepare", [_wheel, _environment])
def test_a_version_that_is_installed_runs_on_the_doubles_of_this_project(
    project: Path, tmp_path: Path, prepare: Callable[[Path], str]
) -> None:
    """Doubles are beside the operator, and not a part of an installation. The operator is the installed one."""
    settings = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(f'{settings}doubles = "fakes:make_doubles"\n')
    (project / "fakes.py").write_text(FAKES)
    done = _opsdk_plan(project, prepare(tmp_path / "old"), "-f", "../greeting.yaml")
    assert done.returncode == 2, done.stderr
    assert "data.text: 'Hello World!' -> 'Good morning World!'" in done.stdout


@pytest.mark.slow
def test_an_operator_in_a_file_is_that_file_of_the_other_checkout(project: Path, tmp_path: Path) -> None:
    """Neither checkout names its operator in pyproject.toml."""
    version = _checkout(tmp_path / "old")
    for folder in (project, tmp_path / "old"):
        (folder / "pyproject.toml").write_text("[project]\nname = 'greeting-operator'\n")
    done = _opsdk_plan(project, version, "-f", "../greeting.yaml", f"{MODULE}.py")
    assert done.returncode == 2, done.stderr
    assert "data.text: 'Hello World!' -> 'Good morning World!'" in done.stdout


def _broken_wheel(folder: Path) -> str:
    folder.mkdir()
    (folder / "shop-1.0.0-py3-none-any.whl").write_text("no archive")
    return "../old/shop-1.0.0-py3-none-any.whl"


def _broken_interpreter(folder: Path) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(folder / "nowhere")
    return "../old"


def _failing_interpreter(folder: Path) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("#!/bin/sh\necho 'no such library' >&2\nexit 7\n")
    (folder / "bin" / "python").chmod(0o755)
    return "../old"


def _older_opsdk(folder: Path) -> str:
    version = _environment(folder)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "opsdk").mkdir()
    (packages / "opsdk" / "__init__.py").touch()
    return version


def _without_opsdk(folder: Path) -> str:
    version = _environment(folder)
    next(folder.glob("lib/python*/site-packages/these.pth")).unlink()
    return version


def _of_this_version(folder: Path) -> str:
    """Make an environment in which this checkout is installed for development."""
    version = _environment(folder)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / f"{MODULE}.py").unlink()
    (packages / "editable.pth").write_text(str(folder.parent / "new"))
    return version


def _does_not_import(folder: Path) -> str:
    return _checkout(folder, "raise RuntimeError('no database')\n")


def _does_not_rest(folder: Path) -> str:
    setup = "\n\n@operator.setup\nasync def setup(_):\n    raise KeyError('REGION')\n    yield\n"
    return _checkout(folder, GREETER + setup)


def _printing(folder: Path, plan: str) -> str:
    """Make an interpreter that passes the probe, and then prints a plan and fails."""
    script = f"""#!/bin/sh
if [ "$1" = -c ]; then echo '{{"opsdk": true, "plan": true, "places": ["/a.py"]}}'; exit 0; fi
echo "reading the settings"
cat <<'PLAN'
{plan}
PLAN
exit 1
"""
    version = _failing_interpreter(folder)
    (folder / "bin" / "python").write_text(script)
    return version


def _hot_loop(folder: Path) -> str:
    each = Consequence(kind=ConsequenceKind.LOOP, severity=Severity.DANGER, subject="a", message="it writes for ever")
    return _printing(folder, msgspec.json.format(msgspec.json.encode(_plan(consequences=(each,)))).decode())


def _later_opsdk(folder: Path) -> str:
    return _printing(folder, '{\n  "operator": ["apps"]\n}')


def _reaches_out(folder: Path) -> str:
    setup = """
import socket

@operator.setup
async def setup(_):
    try:
        socket.create_connection(("db.example.com", 5432))
    except OSError:
        print("no database")
    yield
"""
    return _checkout(folder, GREETER + setup)


def _unknown_revision(folder: Path) -> str:
    _revision(folder)
    return "git:nope"


def _option_as_revision(folder: Path) -> str:
    _revision(folder)
    return "git:--output=x"


def _no_repository(_: Path) -> str:
    return "git:HEAD"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepare", "messages"),
    [
        (_broken_wheel, ["pip does not install the wheel"]),
        (_broken_interpreter, ["bin/python cannot be started"]),
        (_failing_interpreter, ["does not run: it ended with status 7", "no such library"]),
        (_older_opsdk, ["its opsdk has no plan command", "-m pip install --upgrade"]),
        (_without_opsdk, ["it has no opsdk", "-m pip install --upgrade"]),
        (_of_this_version, ["which is this version: install the other version there"]),
        (_does_not_import, ["opsdk plan of that version failed", "RuntimeError: no database"]),
        (_does_not_rest, ["does not come to rest", "REGION"]),
        (_hot_loop, ["does not come to rest", "it writes for ever"]),
        (_later_opsdk, ["a plan that this one cannot read", "$.operator", "install the same opsdk for both"]),
        (_reaches_out, ["it tries to reach db.example.com:5432", "declare doubles"]),
        (_unknown_revision, ["git knows no revision 'nope'"]),
        (_option_as_revision, ["git knows no revision '--output=x'"]),
        (_no_repository, ["not a git repository"]),
    ],
)
def test_a_version_that_cannot_be_planned_is_an_error(
    project: Path, tmp_path: Path, prepare: Callable[[Path], str], messages: list[str]
) -> None:
    """Status 1, no plan, and a message with what to do; no traceback and no file stay."""
    version = prepare(tmp_path / "old")
    (tmp_path / "temporary").mkdir()
    done = _opsdk_plan(project, version, TMPDIR=str(tmp_path / "temporary"))
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert done.stderr.startswith(f"opsdk: --against {version}"), done.stderr
    assert [message for message in messages if message not in done.stderr] == [], done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "temporary").glob("opsdk-*")) == []


@pytest.mark.slow
def test_a_version_without_an_end_is_stopped(project: Path, tmp_path: Path) -> None:
    """Each run of the other version has a time limit."""
    version = _checkout(tmp_path / "old", "import time\n\ntime.sleep(600)\n")
    done = _opsdk_plan(project, version, "--against-timeout", "2")
    assert done.returncode == 1
    assert "did not end within 2 s: pass more with --against-timeout" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_plan_that_is_interrupted_leaves_nothing(project: Path, tmp_path: Path, number: signal.Signals) -> None:
    """The other version's process and the temporary folder go away."""
    running, temporary = tmp_path / "running", tmp_path / "temporary"
    temporary.mkdir()
    source = (
        f"import os, pathlib, time\n\npathlib.Path({str(running)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    command = _command(_checkout(tmp_path / "old", source))
    # A shell lets its background jobs ignore SIGINT, and their children do so too, unless the parent handles it.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, cwd=project, env={**os.environ, "TMPDIR": str(temporary)}) as planning:
        try:
            until(lambda: running.exists() and running.read_text(), running)
            assert list(temporary.glob("opsdk-*"))
            planning.send_signal(number)
            assert planning.wait(60) != 0
        finally:
            signal.signal(signal.SIGINT, former)
            planning.kill()
    assert list(temporary.glob("opsdk-*")) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(running.read_text()), 0)
