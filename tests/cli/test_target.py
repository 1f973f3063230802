"""Each command that changes a cluster says first which one, and each takes the same options to choose it."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import typer
import yaml

from opsdk.cli.__main__ import main
from opsdk.cli.app import app
from opsdk.cli.canary import abort, promote, start
from opsdk.cli.canary import status as canary_status
from opsdk.cli.deploy.command import deploy, undeploy
from opsdk.cli.dev.command import dev
from opsdk.cli.doctor.command import cleanup, doctor
from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.lazy import LazyGroup
from opsdk.cli.output import OutputFormat
from opsdk.cli.pause import pause, reconcile, resume
from opsdk.cli.target import Attempt, Consent, TargetCluster
from opsdk.cli.top.command import top
from opsdk.errors import ConfigError, UsageError
from tests.cli.test_main import commands

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
        ("", "", False, "https://dev.example.com:6443 (the context dev of {}), namespace shop: remove it"),
        ("prod", "", False, "https://prod.example.com:6443 (the context prod of {}), namespace default: remove it"),
        ("", "web", True, "https://dev.example.com:6443 (the context dev of {}), namespace web: would remove it"),
        ("", None, False, "https://dev.example.com:6443 (the context dev of {}): remove it"),
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
    consent = Consent.of(target, yes=not dry_run, dry_run=dry_run)
    attempt = consent.change(lambda attempt: attempt, what="remove it", namespace=namespace)
    assert (attempt.dry_run, attempt.is_preview) == (dry_run, False)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", expected.format(kubeconfig) + "\n")


class Terminal(io.StringIO):
    """A terminal at which a user types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "is_made"), [("y", True), ("YES", True), ("", False), ("n", False), ("what", False)]
)
def test_a_terminal_shows_the_changes_and_asks(
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    answer: str,
    is_made: bool,
) -> None:
    """The preview is a dry run on standard error. Only a yes makes the changes; another answer has status 1."""
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    attempts: list[Attempt] = []

    def run(attempt: Attempt) -> None:
        attempts.append(attempt)
        attempt.print(OutputFormat.JSON, ["a"], ["delete a"])

    consent = Consent.of(TargetCluster("", kubeconfig), yes=False, dry_run=False)
    with nullcontext() if is_made else pytest.raises(typer.Exit, match="1"):
        consent.change(run, what="delete")
    assert [(each.dry_run, each.is_preview) for each in attempts] == [(True, True), (False, False)][: 1 + is_made]
    captured = capsys.readouterr()
    assert captured.out == ('[\n  "a"\n]\n' if is_made else "")
    assert "delete a\nMake these changes? [y/N] " in captured.err
    assert ("nothing was changed" in captured.err) is not is_made


# Each command that changes a cluster, with the least words that it takes.
CHANGES = {
    "deploy": [],
    "undeploy": [],
    "cleanup": ["--finalizers", "a.example.com/b"],
    "pause": ["sites", "a/b"],
    "resume": ["sites", "a/b"],
    "reconcile": ["sites", "a/b"],
    "canary start": ["2", "--shard", "red"],
    "canary promote": [],
    "canary abort": [],
}
# The others, and why they need no consent.
OTHERS = {
    "they read": ["more", "canary status", "doctor", "why", "plan", "snapshot", "verify", "replay", "validate"],
    "they change files or a server of this machine": [
        "init", "create api", "create version", "create webhook", "create policy", "update", "package", "apiserver",
        "migrate kopf", "generate policies",
        "generate crd", "generate rbac", "generate models", "generate norman-client", "generate manifests",
        "generate monitoring", "generate webhooks", "generate all",
    ],
    "they run a program until it is stopped": ["run", "dev", "norman"],
    "it asks for each change on its own": ["top"],
}  # fmt: skip


def test_each_command_is_in_one_table() -> None:
    """A new command that changes a cluster must take the manner of the others."""
    group = typer.main.get_command(app)
    assert isinstance(group, LazyGroup)
    assert sorted(map(" ".join, commands(group))) == sorted(
        [*CHANGES, *(name for names in OTHERS.values() for name in names)]
    )


@pytest.mark.parametrize("words", CHANGES)
def test_a_change_without_consent_is_a_wrong_command_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal, the error says what to add, before anything is read or changed."""
    line = [*words.split(), *CHANGES[words]]
    for more, text in (([], "pass --yes, or --dry-run"), (["--yes", "--dry-run"], "mutually exclusive")):
        assert main([*line, *more]) == ExitStatus.USAGE
        assert text in " ".join(capsys.readouterr().err.replace("│", " ").split())


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
    single = typer.Typer()
    single.command()(pause)
    command = typer.main.get_command(single)
    assert {"--context", "--kubeconfig"} <= {name for each in command.params for name in each.opts}
