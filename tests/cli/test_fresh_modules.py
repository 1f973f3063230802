"""Modules of a project that are imported again and again in one process."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from opsdk.cli.fresh_modules import compiled_once
from opsdk.cli.loading import import_module


def test_a_file_is_compiled_again_only_if_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module itself is new each time. Without bytecode on the disk, each import would compile it."""
    compiled: list[str] = []
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)

    def noted(_: object, data: bytes, path: str) -> CodeType:
        compiled.append(Path(path).stem)
        return compile(data, path, "exec")

    monkeypatch.setattr(SourceFileLoader, "source_to_code", noted)
    file = tmp_path / "compiled_example.py"
    modules = []
    for text in ("items = [1]\n", "items = [1]\n", "items = [1, 2]\n"):
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        with compiled_once():
            modules.append(importlib.import_module("compiled_example"))
        del sys.modules["compiled_example"]
    assert [module.items for module in modules] == [[1], [1], [1, 2]]
    assert modules[0].items is not modules[1].items
    assert compiled == ["compiled_example"] * 2


def test_the_search_path_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verification loads a file for each start of its operator, and the path is searched for each import."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "found_example.py"
    file.write_text("")
    for _ in range(3):
        import_module(str(file))
        del sys.modules["found_example"]
    assert sys.path[0] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
