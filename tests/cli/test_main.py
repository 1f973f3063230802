"""The command as a program: help, errors, and what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from opsdk import Operator
from opsdk.cli import app as app_module
from opsdk.cli.__main__ import main
from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.generate.files import write_generated
from opsdk.cli.lazy import LazyGroup
from opsdk.cli.loading import load, load_operator
from opsdk.errors import UsageError

GROUPS = ["", "generate", "create"]
COMMANDS = [
    "generate crd", "generate models", "generate rbac", "generate webhooks", "generate manifests", "generate all",
    "create api", "create version", "create webhook", "init", "run", "dev", "apiserver", "package", "doctor", "cleanup",
    "why", "deploy", "undeploy", "validate",
]  # fmt: skip


@pytest.mark.parametrize("words", GROUPS + COMMANDS)
def test_every_command_has_help(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every group and command has a summary, and every command an example."""
    assert main([*words.split(), "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    _, _, rest = text.partition(f"Usage: opsdk {words} ".replace("  ", " "))
    assert rest, text
    assert words in GROUPS or f"opsdk {words}" in rest


def commands(group: LazyGroup, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command below a group."""
    for name in dict.fromkeys((*group.lazy_commands, *group.commands)):
        command = group.load(name)
        if isinstance(command, LazyGroup):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name)


def exit_status(run: Callable[[], object]) -> object:
    """How a program ends."""
    try:
        return run()
    except SystemExit as end:
        return end.code


def test_a_wrong_command_line_has_a_status_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """At each entry point it ends with the option's name. 2 means changes in ``plan``, and a bug in ``verify``."""
    group = typer.main.get_command(app_module.app)
    assert isinstance(group, LazyGroup)
    lines = [*commands(group), ()]
    assert len(lines) > 25
    for words in lines:
        if words != ("run",):  # its words after the operator are those of the operator
            assert main([*words, "--no-such-flag"]) == ExitStatus.USAGE == 64, words
            assert "--no-such-flag" in capsys.readouterr().err
    operator = Operator("x")
    for run in (
        lambda: main(["verify", "--time-limit", "soon"]),
        lambda: main(["no-such"]),
        lambda: operator.main(["--no-such-flag"]),
        lambda: operator.main(["--webhook-port", "many"]),
        lambda: operator.main(["--max-concurrent-reconciles", "0"]),
    ):
        assert exit_status(run) == ExitStatus.USAGE
    assert not exit_status(lambda: operator.main(["--help"]))


@pytest.mark.parametrize("words", [["--no-such-flag"], ["serve", "--port", "many"], ["serve", "--no-such-flag"], []])
def test_a_wrong_command_line_of_the_local_server(words: list[str]) -> None:
    """The server and its subcommands have the same status."""
    server = pytest.importorskip("envtest.__main__", reason="needs the envtest extra: pip install opsdk[envtest]")
    assert exit_status(lambda: server.main(words)) == ExitStatus.USAGE


def test_a_wrong_variable_of_an_operator_has_the_same_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable is a flag; an error behind the command line has another status."""
    monkeypatch.setenv("OPSDK_LEADER_ELECT", "maybe")
    assert exit_status(lambda: Operator("x").main([])) == ExitStatus.USAGE
    assert "$OPSDK_LEADER_ELECT is 'maybe'" in capsys.readouterr().err
    monkeypatch.delenv("OPSDK_LEADER_ELECT")
    assert "x: " in str(exit_status(lambda: Operator("x").main(["--kubeconfig", "/no/such/file"])))


def test_no_program_has_a_parser_of_its_own() -> None:
    """The parser of argparse ends with 2 for a wrong command line, so programs use its subclass."""
    root = Path(app_module.__file__).parents[2]
    assert not [
        path.relative_to(root).as_posix()
        for package in ("opsdk", "envtest")
        for path in (root / package).rglob("*.py")
        if "argparse.ArgumentParser(" in path.read_text() or "import ArgumentParser" in path.read_text()
    ]


def test_the_notes_of_an_error_are_printed_below_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command adds what to do as a note."""

    def fail(**_: object) -> None:
        error = UsageError("a conflict")
        error.add_note("pass --force")
        raise error

    monkeypatch.setattr(app_module, "app", fail)
    assert main(["deploy"]) == 1
    assert capsys.readouterr().err == "opsdk: a conflict\npass --force\n"


def test_an_operator_that_cannot_start_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``opsdk run`` shows the line that ``python -m`` of the operator would show."""
    path = tmp_path / "lone_operator.py"
    path.write_text("from opsdk import Operator\noperator = Operator('lone')\n")
    assert main(["run", str(path), "--", "--kubeconfig", str(tmp_path / "missing")]) == 1
    assert capsys.readouterr().err == f"lone: no kubeconfig at {tmp_path / 'missing'}\n"


def test_without_the_extra_a_sentence_says_what_to_install() -> None:
    """A missing extra is one sentence without a traceback."""
    script = "import sys; sys.modules['typer'] = None; from opsdk.cli.__main__ import main; sys.exit(main(['why']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == "opsdk: the command needs typer: pip install 'opsdk[cli]'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (\n", r"loaded: .*broken\.py:1: '\(' was never closed"),
        ("\nimport nothing_like_this\n", r"broken\.py:2: ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("import json\njson.loads('[')\n", r"loaded: .*: JSONDecodeError"),
        ("\nx = 1 / 0\n", r"loaded: .*broken\.py:2: ZeroDivisionError: division by zero"),
        ("y = 1\n", r"write MODULE:NAME: module 'broken' has no attribute 'x'"),
    ],
)
def test_a_module_that_does_not_import_is_one_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that does not import is an error of one line with the place."""
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(UsageError, match=message):
        load("broken:x", "NAME")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def x():\n    return 1 / 0\n", r"^'broken:x' fails: .*broken\.py:2: ZeroDivisionError: division by zero$"),
        ("class x: ...\n", r"^'broken:x' is not an operator: name an Operator"),
        ("x = 1\n", r"^'broken:x' is not an operator: name an Operator"),
    ],
)
def test_a_reference_that_is_no_operator_is_one_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reference that is not an operator is an error of one line; a failing function adds its place."""
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(UsageError, match=message):
        load_operator("broken:x")


def test_a_reconciler_of_a_class_that_is_no_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the declaration and the class, and no line of opsdk."""
    shapes, broken = tmp_path / "plain_shapes.py", tmp_path / "broken.py"
    shapes.write_text("\nclass Plain: ...\n")
    broken.write_text(
        "import opsdk, plain_shapes\nx = opsdk.Operator('x')\n"
        "@x.reconciler(plain_shapes.Plain)\nasync def reconcile(request): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("broken", "plain_shapes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    message = f"'broken' cannot be loaded: {broken}:3: UsageError: Plain has no kind ({shapes}:2): pass a class with"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}[^\n]*$"):
        load_operator("broken:x")


@pytest.mark.parametrize("words", ["run", "dev", "doctor", "cleanup"])
def test_outside_of_a_project_the_operator_is_named(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends at once, and starts no server."""
    monkeypatch.chdir(tmp_path)
    assert main([words, *(["--yes"] if words == "cleanup" else [])]) == 1
    assert "name the operator: MODULE:NAME or FILE.py" in capsys.readouterr().err


@pytest.mark.parametrize("reference", ["", "pathlib", "pathlib:", ":Path"])
def test_what_is_no_reference(reference: str) -> None:
    """The error has the form to write."""
    with pytest.raises(UsageError, match="write MODULE:CLASS"):
        load(reference, "CLASS")


def test_an_edited_file_is_not_overwritten(tmp_path: Path) -> None:
    """A file that is as it was generated is; an edited one only with force."""
    path = tmp_path / "a" / "b.py"
    write_generated(path, "x = 1\n", command="opsdk generate models")
    write_generated(path, "x = 2\n", command="opsdk generate models")
    path.write_text(path.read_text() + "y = 3\n")
    with pytest.raises(UsageError, match=r"b\.py was edited, or another tool generated it"):
        write_generated(path, "x = 4\n", command="opsdk generate models")
    write_generated(path, "x = 4\n", command="opsdk generate models", force=True)
    assert path.read_text().splitlines()[1:] == ["x = 4"]


def test_the_help_describes_at_most_twelve_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Each other command is named there, and ``opsdk more`` describes it: none in two places, and none in neither."""
    group = typer.main.get_command(app_module.app)
    assert isinstance(group, LazyGroup)
    first = [name for names in group.sections.values() for name in names]
    others = [name for names in group.more_sections.values() for name in names]
    assert len(first) <= 12
    assert sorted([*first, *others, "more"]) == sorted(group.commands)
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in first)
    assert all(re.search(rf"[ \n]{name}[,.]", text) for name in others)
    assert main(["more"]) == 0
    described = capsys.readouterr().out
    assert all(f"\n  {name} " in described for name in others)
