"""``opsdk plan`` and ``opsdk snapshot`` as commands: what they print, and how they exit."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from planned_scenarios import make_greeter

import envtest
from opsdk.cli.__main__ import main
from opsdk.cli.plan.inputs import UserChanges
from opsdk.cli.plan.request import OperatorChoice
from opsdk.engine.connections import ForbiddenConnectionError, refuse_connections
from opsdk.engine.snapshot import ClusterSnapshot, write_snapshot
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.rbac.permissions import Permission, RuleSet
from tests.engine.upgrades import Version, config, state_of

GREETER = "samples/greeter/greeter.py"
GREETING = """\
apiVersion: demo.opsdk.dev/v1
kind: Greeting
metadata: {name: first, namespace: default}
spec: {name: World}
"""


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a cluster with an operator that the greeter does not know."""
    path = tmp_path_factory.mktemp("plan") / "cluster.snapshot.gz"
    path.write_bytes(write_snapshot(state_of(Version(children=lambda name: [config(name, a="1")]))))
    return path


def _run(*words: str) -> int:
    make_greeter()
    return main(["plan", GREETER, *words])


def test_a_plan_shows_the_objects_with_their_reasons(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 2: something changes, and nothing is dangerous. Equal plans have equal bytes."""
    greeting = tmp_path / "greeting.yaml"
    greeting.write_text(GREETING)
    outputs = []
    for _ in range(2):
        assert _run("--snapshot", str(snapshot), "-f", str(greeting)) == 2
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "+ create ConfigMap default/first" in outputs[0]
    assert "Hello World!" in outputs[0]
    assert "because of Greeting create default/first" in outputs[0]


MIGRATION = """\
apiVersion: storagemigration.k8s.io/v1
kind: StorageVersionMigration
metadata: {name: move}
spec: {resource: {group: apps, resource: deployments}}
"""


def test_a_plan_runs_on_the_chosen_version(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kind that only 1.37 has can be applied there; another version of the operator runs on the same one."""
    migration = tmp_path / "migration.yaml"
    migration.write_text(MIGRATION)
    words = ["--snapshot", str(snapshot), "-f", str(migration)]
    assert _run(*words, "--kubernetes", "1.37") == 2
    assert "StorageVersionMigration move" in capsys.readouterr().out
    assert _run(*words) == 1
    assert "StorageVersionMigration" in capsys.readouterr().err
    assert OperatorChoice(reference=GREETER, kubernetes="1.37").words[-2:] == ["--kubernetes", "1.37"]


def test_an_unknown_version_is_one_sentence(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the versions that are known."""
    assert _run("--snapshot", str(snapshot), "--kubernetes", "new") == 1
    assert "'new' is not a version of Kubernetes: give one of 1.35, 1.36, 1.37" in capsys.readouterr().err


@pytest.mark.parametrize("namespace", ["default", "missing"])
def test_the_election_of_a_leader_is_not_in_a_plan(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], namespace: str
) -> None:
    """An operator that elects a leader has the same plan as without: there is one replica, so it leads at once."""
    greeting = tmp_path / "greeting.yaml"
    greeting.write_text(GREETING)
    words = ["--snapshot", str(snapshot), "-f", str(greeting)]
    election = ["--set", "leader-elect", "--set", f"leader-election-namespace={namespace}"]
    assert _run(*words) == 2
    expected = capsys.readouterr().out
    assert _run(*words, *election) == 2
    assert capsys.readouterr().out == expected


_IN_EACH_FORMAT = """\
import sys
from opsdk.cli.__main__ import main
sys.exit(str([int(main([*sys.argv[1:], "--output", output])) for output in ("text", "markdown", "json")]))
"""


@pytest.mark.slow
def test_equal_plans_have_equal_bytes_in_any_process(snapshot: Path, tmp_path: Path) -> None:
    """The order of sets differs between processes; the plan does not, in any format."""
    greeting = tmp_path / "greeting.yaml"
    greeting.write_text(GREETING)
    words = ["--snapshot", str(snapshot), "-f", str(greeting), "--save", str(tmp_path / "end")]
    outputs = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _IN_EACH_FORMAT, "plan", GREETER, *words],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=False,
        )
        assert done.stderr.decode().splitlines()[-1] == "[2, 2, 2]"
        outputs.add((done.stdout, (tmp_path / "end").read_bytes()))
    assert len(outputs) == 1


def test_json_and_markdown_say_the_same(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs and pull requests get the changes of the terminal view."""
    greeting = tmp_path / "greeting.yaml"
    greeting.write_text(GREETING)
    assert _run("--snapshot", str(snapshot), "-f", str(greeting), "--output", "json") == 2
    document = json.loads(capsys.readouterr().out)
    changes = {(c["action"], c["kind"]) for planned in document["objects"] for c in planned["changes"]}
    assert {("create", "Greeting"), ("create", "ConfigMap")} <= changes
    assert _run("--snapshot", str(snapshot), "-f", str(greeting), "--output", "markdown") == 2
    assert "create ConfigMap default/first" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--delete", "configmaps/default/gone"], ["--scale", "deployments.apps/default/gone=0"]]
)
def test_a_change_of_a_missing_object_is_an_error(
    snapshot: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says that it is the user's change, and names the object."""
    assert _run("--snapshot", str(snapshot), *words) == 1
    message = capsys.readouterr().err
    assert "your change cannot be made in this cluster" in message
    assert '"gone" not found' in message


@pytest.mark.parametrize("words", [["--delete", "deployments.apps/default/web"], ["--scale", "deploy/default/web=0"]])
def test_a_change_of_a_kind_that_the_snapshot_lacks_says_so(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The object may exist: the operator does not use its kind, so the snapshot does not have it."""
    rules = RuleSet([Permission("list", "", "configmaps")])

    async def take() -> ClusterSnapshot:
        async with envtest.Environment() as env:
            return await take_snapshot(env.config, rules=rules)

    path = tmp_path / "few.snapshot"
    path.write_bytes(write_snapshot(asyncio.run(take())))
    assert _run("--snapshot", str(path), *words) == 1
    message = capsys.readouterr().err
    assert "the snapshot has no deployments.apps" in message
    assert "opsdk snapshot --all" in message


def test_the_kinds_of_changes_are_named(tmp_path: Path) -> None:
    """What the user applies, deletes and scales is read from the cluster too."""
    path = tmp_path / "web.yaml"
    path.write_text(GREETING)
    changes = UserChanges(files=[path], deletions=["nodes/a"], scales=["deploy/default/web=3"])
    assert changes.kinds == ["Greeting.demo.opsdk.dev", "nodes", "deploy"]


def test_a_change_that_the_server_refuses_is_dangerous(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What happens to a file is an answer, also if the definition refuses it."""
    greeting = tmp_path / "greeting.yaml"
    greeting.write_text(GREETING.replace("World", "[1]"))
    assert _run("--snapshot", str(snapshot), "-f", str(greeting)) == 3
    assert "Danger: your change\n  is refused: " in capsys.readouterr().out


def test_a_missing_permission_is_named_with_what_to_declare(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator runs with the permissions that it declares. The message has both ways out."""
    greeting = tmp_path / "greeting.yaml"
    greeting.write_text(GREETING)
    operator = tmp_path / "greeter_without_permissions.py"
    operator.write_text(Path(GREETER).read_text().replace("applies(ConfigMap), ", ""))
    assert main(["plan", str(operator), "--snapshot", str(snapshot), "-f", str(greeting)]) == 3
    output = capsys.readouterr().out
    assert "cannot patch resource" in output
    assert "declare the permission in rbac=[...], or pass --all-permissions" in output


def test_a_wrong_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the file and what to do."""
    path = tmp_path / "x"
    path.write_text("no snapshot")
    assert _run("--snapshot", str(path)) == 1
    assert "write one with opsdk snapshot" in capsys.readouterr().err


def test_connections_are_refused_and_named_while_a_run_lasts() -> None:
    """Names, addresses and datagrams; an allowed host is reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with refuse_connections() as refused:
            with pytest.raises(ForbiddenConnectionError, match=r"127\.0\.0\.1"):
                socket.create_connection(("127.0.0.1", port))
            with pytest.raises(ForbiddenConnectionError), socket.socket(type=socket.SOCK_DGRAM) as datagram:
                datagram.sendto(b"x", ("127.0.0.1", port))
        assert refused
        with refuse_connections(["127.0.0.1"]) as refused:
            socket.create_connection(("127.0.0.1", port)).close()
        assert not refused
    socket.getaddrinfo("localhost", 80)


def _datagram() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as datagram:
        datagram.sendmsg([b"x"], [], 0, ("127.0.0.1", 9))


@pytest.mark.parametrize(
    ("attempt", "target"),
    [
        (_datagram, "127.0.0.1:9"),
        (lambda: socket.gethostbyname("db.example.com"), "db.example.com"),
        (lambda: socket.gethostbyaddr("192.0.2.1"), "192.0.2.1"),
        (lambda: os.system("true"), "program true"),
        (lambda: os.posix_spawn("/bin/true", ["true"], {}), "program /bin/true"),
        (lambda: os.execv("/bin/true", ["true"]), "program /bin/true"),
        (lambda: subprocess.run(["true"], check=True), "program true"),
    ],
)
def test_each_way_out_of_a_process_is_refused(attempt: Callable[[], object], target: str) -> None:
    """Datagrams, look-ups and programs, by every function of the standard library that starts one."""
    with refuse_connections() as refused, pytest.raises(ForbiddenConnectionError):
        attempt()
    assert list(refused) == [target]


def test_a_connected_datagram_socket_sends() -> None:
    """Its connection was allowed."""
    with socket.socket(type=socket.SOCK_DGRAM) as datagram, refuse_connections(["127.0.0.1"]) as refused:
        datagram.connect(("127.0.0.1", 9))
        assert datagram.sendmsg([b"x"]) == 1
    assert not refused


@pytest.mark.parametrize(
    "words",
    [["--snapshot", "a.gz"], ["--against", "git:main"], ["-f", "a.yaml"], ["--delete", "nodes/a"], ["--save", "a"]],
)
def test_a_comparison_with_the_leader_makes_no_changes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The shadow shows what happens by itself; options that ask something else are named."""
    assert _run("--shadow", *words) == 1
    assert "--shadow shows what happens in the cluster by itself: leave out --" in capsys.readouterr().err
