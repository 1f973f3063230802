"""External systems: a plan never reaches them, and runs on the doubles that are declared beside the operator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from documentation import ROOT

import envtest
from application.api import Application
from fake_dns import make_doubles
from opsdk import Operator
from opsdk.cli.__main__ import main
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotError, write_snapshot
from opsdk.errors import UsageError
from opsdk.testing.doubles import EMPTY_CLUSTER
from opsdk.testing.simulate import Simulation, World

APPLICATION = """\
apiVersion: applications.opsdk.dev/v1
kind: Application
metadata: {name: shop, namespace: default}
spec: {image: "shop:1", migrate: ["sleep", "5"], host: shop.example.com}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The application sample as a project without doubles, an application to apply, and an empty cluster."""
    sample = ROOT / "samples" / "application"
    monkeypatch.syspath_prepend(str(sample))
    monkeypatch.delitem(sys.modules, "application.__main__", raising=False)
    declaration = (sample / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(declaration.replace("doubles =", "# doubles ="))
    (tmp_path / "app.yaml").write_text(APPLICATION)
    (tmp_path / "empty.snapshot").write_bytes(write_snapshot(EMPTY_CLUSTER))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_an_external_system_without_a_double_is_refused_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan fails, because it cannot show what the answer would lead to. The message says what to declare."""
    assert main(["plan", "--snapshot", "empty.snapshot", "-f", "app.yaml"]) == 1
    output = capsys.readouterr().out
    assert "dns-service:8200" in output
    assert "doubles" in output


def test_an_operator_runs_on_the_doubles_of_its_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record that the double gave is in the status that the plan shows; nothing was refused."""
    path = project / "pyproject.toml"
    path.write_text(path.read_text().replace("# doubles =", "doubles ="))
    assert main(["plan", "--snapshot", "empty.snapshot", "-f", "app.yaml"]) == 2
    output = capsys.readouterr().out
    assert "r-1" in output
    assert "dns-service" not in output


@pytest.mark.usefixtures("project")
def test_doubles_are_named_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The operator of another project has no entry in pyproject.toml."""
    words = ["plan", "--snapshot", "empty.snapshot", "-f", "app.yaml", "--doubles", "fake_dns:make_doubles"]
    assert main(words) == 2
    assert "r-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def make_doubles(snapshot): return 3", "return an opsdk.testing.doubles.Doubles"),
        ("def make_doubles(snapshot): raise RuntimeError('no records')", "broken.py:1: RuntimeError: no records"),
        ("", "cannot be loaded"),
    ],
)
def test_wrong_doubles_are_named(project: Path, source: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the function, and its line if it fails."""
    (project / "broken.py").write_text(source)
    sys.modules.pop("broken", None)
    assert main(["plan", "--snapshot", "empty.snapshot", "--doubles", "broken:make_doubles"]) == 1
    assert message in capsys.readouterr().err


def test_a_snapshot_returns_the_objects_of_a_kind() -> None:
    """In the version of the class; an object with another shape is named."""

    def tree(name: str, version: str = "v1", **spec: object) -> dict[str, object]:
        api_version = f"applications.opsdk.dev/{version}"
        return {"apiVersion": api_version, "kind": "Application", "metadata": {"name": name}, "spec": spec}

    current = tree("a", image="a:1", host="a.example.com")
    snapshot = ClusterSnapshot(taken_at=EMPTY_CLUSTER.taken_at, objects=[current, tree("b", "v0")])
    assert [app.spec.host for app in snapshot.objects_of(Application)] == ["a.example.com"]
    wrong = ClusterSnapshot(taken_at=EMPTY_CLUSTER.taken_at, objects=[tree("c", image=["list"], host="c.example.com")])
    with pytest.raises(SnapshotError, match="Application c does not fit the class Application"):
        wrong.objects_of(Application)


def test_a_simulation_has_an_operator_or_doubles() -> None:
    """Not both, and not neither."""
    both: dict[str, Any] = {"operator": lambda: Operator("a"), "doubles": make_doubles}
    for arguments in ({}, both):
        with pytest.raises(UsageError, match="operator or doubles"):
            Simulation(environment=envtest.Environment, check=_holds, **arguments)


async def _holds(_: World) -> None:
    """Every state is right."""
