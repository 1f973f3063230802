"""``--output json``: one document, with what the text says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from opsdk.cli.__main__ import main
from opsdk.cli.output import print_table


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """Return the document that the command printed."""
    document: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return document


def test_files_that_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each file with its action and its path from the current folder, and each exists."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "listed", "--output", "json"]) == 0
    created = rows(capsys)
    assert {row["action"] for row in created} == {"wrote"}
    assert all((tmp_path / row["path"]).is_file() for row in created)
    monkeypatch.chdir(tmp_path / "listed")
    monkeypatch.syspath_prepend(str(tmp_path / "listed"))
    assert main(["create", "api", "--group", "a.example.com", "--kind", "Site", "--output", "json"]) == 0
    assert rows(capsys) == [
        {"path": "listed/site.py", "action": "wrote"},
        {"path": "tests/test_site.py", "action": "wrote"},
        {"path": "samples/site.yaml", "action": "wrote"},
        {"path": "listed/operator.py", "action": "changed"},
    ]
    assert main(["package", "--output", "json"]) == 0
    packaged = [Path(row["path"]) for row in rows(capsys)]
    assert sorted(packaged) == sorted(path for path in Path("dist").rglob("*") if path.is_file())


def test_definitions_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a folder, definitions are printed as JSON."""
    assert main(["generate", "crd", "greeter:Greeting", "--output", "json"]) == 0
    (definition,) = json.loads(capsys.readouterr().out)
    assert definition["metadata"]["name"] == "greetings.demo.opsdk.dev"


def test_text_has_a_line_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text output has a line for each file and the next command; JSON output omits the command."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", ".", "--name", "here"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert "wrote here/operator.py" in lines
    assert last == "next: opsdk create api --group demo.example.com --version v1 --kind Widget && opsdk dev"


def test_a_table_in_a_pipe_is_not_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row is one line with its whole cells, whatever the width of the terminal; brackets are not markup."""
    monkeypatch.setenv("COLUMNS", "40")
    cells = [f"{'word ' * 30}{n} in opsdk[cli]" for n in range(3)]
    table = Table("", "check", box=None, pad_edge=False)
    table.add_row(Text(cells[0]), Text(cells[1]))
    table.add_row(Text("x" * 300), Text(cells[2]))
    print_table(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(cell in lines[1] for cell in cells[:2])
    assert "x" * 300 in lines[2]
