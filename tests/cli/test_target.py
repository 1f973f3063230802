"""Each command that changes a cluster says first which one, and each takes the same options to choose it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
import yaml

from opsdk.cli.canary import abort, promote, start
from opsdk.cli.canary import status as canary_status
from opsdk.cli.deploy.command import deploy, undeploy
from opsdk.cli.dev.command import dev
from opsdk.cli.doctor.command import cleanup, doctor
from opsdk.cli.pause import pause, reconcile, resume
from opsdk.cli.target import TargetCluster
from opsdk.cli.top.command import top
from opsdk.errors import ConfigError, UsageError

COMMANDS = [
    abort, canary_status, cleanup, deploy, dev, doctor, pause, promote, reconcile, resume, start, top, undeploy
]  # fmt: skip


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig with two contexts, which no variable names."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    path = tmp_path / "config"
    contexts = [
        {"name": "dev", "context": {"cluster": "dev", "namespace": "shop"}},
        {"name": "prod", "context": {"cluster": "prod"}},
    ]
    clusters = [{"name": name, "cluster": {"server": f"https://{name}.example.com:6443"}} for name in ("dev", "prod")]
    path.write_text(yaml.safe_dump({"contexts": contexts, "clusters": clusters, "current-context": "dev"}))
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__qualname__)
def test_each_command_has_the_options_of_a_cluster(command: Callable[..., None]) -> None:
    """They have the same names and defaults everywhere."""
    parameters = inspect.signature(command).parameters
    assert (parameters["context"].default, parameters["kubeconfig"].default) == ("", None)


@pytest.mark.parametrize(
    ("context", "namespace", "dry_run", "expected"),
    [
        ("", "", False, "changes https://dev.example.com:6443 (the context dev of {}), namespace shop"),
        ("prod", "", False, "changes https://prod.example.com:6443 (the context prod of {}), namespace default"),
        ("", "web", True, "would change https://dev.example.com:6443 (the context dev of {}), namespace web"),
        ("", None, False, "changes https://dev.example.com:6443 (the context dev of {})"),
    ],
)
def test_a_change_names_server_context_and_namespace(
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    context: str,
    namespace: str | None,
    dry_run: bool,
    expected: str,
) -> None:
    """On standard error, so that the result on standard output stays as it is; a command that reads says nothing."""
    target = TargetCluster(context, kubeconfig)
    target.to_read()
    assert target.to_change(namespace, dry_run=dry_run).host.startswith("https://")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", expected.format(kubeconfig) + "\n")


def test_a_missing_file_is_an_error_and_no_other_cluster_is_taken(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ``~/.kube/config`` nor the service account of a pod."""
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    (home / "config").write_text(kubeconfig.read_text())
    monkeypatch.setenv("HOME", str(home.parent))
    assert TargetCluster().to_read().host == "https://dev.example.com:6443"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="no kubeconfig at"):
        TargetCluster().to_read()
    with pytest.raises(ConfigError, match="no kubeconfig at"):
        TargetCluster("", tmp_path / "none").to_read()


def test_options_that_choose_nothing_are_refused() -> None:
    """The local server of `opsdk dev` has no context."""
    with pytest.raises(UsageError, match="add --cluster"):
        dev("website.operator", context="dev")


def test_typer_knows_the_commands() -> None:
    """The options are options of the command line."""
    app = typer.Typer()
    app.command()(pause)
    command = typer.main.get_command(app)
    assert {"--context", "--kubeconfig"} <= {name for each in command.params for name in each.opts}
