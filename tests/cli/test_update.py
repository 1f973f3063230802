"""``opsdk update``: what opsdk changed comes, what the author changed stays."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cli.__main__ import main
from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.scaffold import templates
from opsdk.cli.scaffold.record import NAME
from opsdk.cli.scaffold.update import merged

API = ["create", "api", "--group", "demo.example.com", "--version", "v1", "--kind", "Widget"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one kind, as the current folder."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "demo"]) == 0
    monkeypatch.chdir(tmp_path / "demo")
    assert main(API) == 0
    return tmp_path / "demo"


def change(monkeypatch: pytest.MonkeyPatch, name: str, *changes: tuple[str, str]) -> None:
    """Let a newer opsdk have another template."""
    text = getattr(templates, name).template
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    monkeypatch.setattr(templates, name, Template(text))


def files_of(project: Path) -> dict[str, str]:
    """The texts of all files."""
    return {str(p.relative_to(project)): p.read_text() for p in project.rglob("*") if p.is_file()}


def test_the_same_version_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the author changed."""
    (project / "README.md").write_text("mine\n")
    before = files_of(project)
    assert main(["update", "--yes"]) == 0
    assert files_of(project) == before
    assert "nothing to update" in capsys.readouterr().out


def test_changes_of_both_are_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unchanged file is replaced, a changed one is merged, a deleted one stays away, once."""
    operator, readme = project / "demo/operator.py", project / "README.md"
    operator.write_text(operator.read_text() + "\n\n# mine\n")
    (project / "AGENTS.md").unlink()
    change(monkeypatch, "OPERATOR", ('"""The operator and its reconcilers."""', '"""The operator $name."""'))
    change(monkeypatch, "README", ("A Kubernetes operator in Python", "An operator in Python"))
    change(monkeypatch, "AGENTS", ("## Rules", "## The rules"))
    before = files_of(project)
    capsys.readouterr()
    assert main(["update", "--dry-run", "--output", "json"]) == 0
    assert files_of(project) == before
    rows = json.loads(capsys.readouterr().out)
    assert rows == [
        {"path": "README.md", "action": "replace"},
        {"path": "demo/operator.py", "action": "merge"},
    ]
    assert main(["update", "--yes"]) == 0
    assert readme.read_text() == before["README.md"].replace("A Kubernetes operator", "An operator")
    expected = before["demo/operator.py"].replace("The operator and its reconcilers.", "The operator demo.")
    assert operator.read_text() == expected
    assert not (project / "AGENTS.md").exists()
    after = files_of(project)
    assert main(["update", "--yes"]) == 0
    assert files_of(project) == after


def test_changes_of_the_same_lines_are_conflicts(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file has both texts between markers, and the status is 1; the next update does not add markers."""
    readme = project / "README.md"
    readme.write_text(readme.read_text().replace("A Kubernetes operator in Python", "My operator in Python"))
    change(monkeypatch, "README", ("A Kubernetes operator in Python", "An operator in Python"))
    assert main(["update", "--yes"]) == 1
    text = readme.read_text()
    assert "<<<<<<< yours\nMy operator in Python" in text
    assert "An operator in Python, built with opsdk.\n>>>>>>> opsdk " in text
    assert "edit the lines between <<<<<<< and >>>>>>> of README.md" in capsys.readouterr().err
    assert main(["update", "--yes"]) == 0
    assert readme.read_text() == text


@pytest.mark.parametrize(
    ("record", "message"), [(None, "opsdk init wrote it"), ("{", "restore it from the project's history")]
)
def test_without_a_record_nothing_is_changed(
    record: str | None, message: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says where it comes from."""
    (project / NAME).unlink()
    if record is not None:
        (project / NAME).write_text(record)
    before = files_of(project)
    assert main(["update", "--yes"]) == 1
    assert message in capsys.readouterr().err
    assert files_of(project) == before


class Terminal(io.StringIO):
    """A terminal at which a user types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "is_made"), [("y", True), ("", False)])
def test_a_terminal_shows_the_changes_and_asks(
    answer: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    is_made: bool,
) -> None:
    """No file changes before the answer."""
    change(monkeypatch, "README", ("A Kubernetes operator in Python", "An operator in Python"))
    before = files_of(project)
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    assert main(["update"]) == int(not is_made)
    assert (files_of(project) != before) is is_made
    captured = capsys.readouterr()
    assert captured.out == ("replace README.md\n" if is_made else "")
    assert captured.err.startswith("replace README.md\nMake these changes? [y/N] ")


def test_without_a_terminal_an_option_decides(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names both options."""
    assert main(["update"]) == ExitStatus.USAGE
    assert "changes files of the project" in " ".join(capsys.readouterr().err.split())


def test_a_newer_template_with_another_value_says_where_to_add_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record of an older version lacks it: nothing changes until the author adds the value."""
    change(monkeypatch, "README", ("A Kubernetes operator in Python", "An operator of $team"))
    before = files_of(project)
    assert main(["update", "--yes"]) == 1
    expected = 'the template of README.md has values that .opsdk.json does not have: team. Add them to "values" of'
    assert expected in " ".join(capsys.readouterr().err.split())
    assert files_of(project) == before
    record = json.loads((project / NAME).read_text())
    record["files"]["README.md"]["values"]["team"] = "mine"
    (project / NAME).write_text(json.dumps(record))
    assert main(["update", "--yes"]) == 0
    assert "An operator of mine" in (project / "README.md").read_text()


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=6)


@given(base=LINES, mine=LINES)
@pytest.mark.slow
def test_a_merge_with_one_side_is_that_side(base: Sequence[str], mine: Sequence[str]) -> None:
    """If only one of the two changed the text, the result is theirs."""
    before, after = "".join(base), "".join(mine)
    assert merged(after, before, before) == (after, False)
    assert merged(before, before, after) == (after, False)
    assert merged(after, before, after) == (after, False)
