"""tools/house.py counts what it says."""

from __future__ import annotations

from pathlib import Path

from tools.house import (
    MEASURES,
    House,
    any_annotations,
    classes_with_two_homes,
    lazy_imports,
    long_functions,
    one_word_tests,
    own_type_checking_imports,
    private_attributes_of_tests,
    vague_locals,
    vague_locals_of_tests,
)

ONE = '''"""One."""
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsdk.two import Thing
if TYPE_CHECKING:  # start-up time: few programs need it
    from opsdk.three import Other


class Thing:
    """Here."""


def _helper(value: Any) -> Any:
    """Called once."""
    found = value
    return found


def public() -> None:
    """Imports twice."""
    import json
    # Imported here for start-up time.
    import yaml
    _helper(json), yaml
'''
TWO = '"""Two."""\n\n\nclass Thing:\n    """There."""\n\n\ndef long() -> None:\n' + "    pass\n" * 61


def house(tmp_path: Path) -> House:
    """A project of two modules and one generated file."""
    for name, text in {"one": ONE, "two": TWO, "api/made": "class Thing: ...\n"}.items():
        path = tmp_path / "opsdk" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("def test_some() -> None:\n    found = 1\n    found._hidden = 2\n")
    return House(tmp_path)


def test_each_measure_counts_its_places(tmp_path: Path) -> None:
    """Generated files are left out, and a place is named by file and line."""
    project = house(tmp_path)
    assert [f.what for f in classes_with_two_homes(project)] == ["Thing: opsdk.one, opsdk.two"]
    assert len(any_annotations(project)) == 2
    assert [f.where for f in vague_locals(project)] == ["opsdk/one.py:16"]
    assert [f.what for f in lazy_imports(project)] == ["json"]
    assert [f.what for f in own_type_checking_imports(project)] == ["opsdk.two"]
    assert [f.what for f in long_functions(project)] == ["long: 62 lines"]
    assert [f.what for f in one_word_tests(project)] == ["test_some"]
    assert [f.where for f in vague_locals_of_tests(project)] == ["tests/test_one.py:2"]
    assert [f.what for f in private_attributes_of_tests(project)] == ["_hidden"]


def test_every_measure_gives_a_figure(tmp_path: Path) -> None:
    """Every measure gives a figure from its findings, and none fails on a small project."""
    project = house(tmp_path)
    figures = {m.name: m.scale(project, len(m.count(project))) for m in MEASURES}
    assert figures["modules without test file"] == 1
    assert figures["one-word tests"] == 1
