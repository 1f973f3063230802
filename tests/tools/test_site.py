"""Docstrings become Markdown for the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.site.hooks import on_page_content

docstrings = pytest.importorskip("tools.site.docstrings", reason="needs griffe: pip install opsdk[docs]")


def test_doctests_become_code_blocks() -> None:
    """A block begins with the first prompt and ends at an empty line or at the end of the docstring."""
    text = "Adds.\n\n>>> 1 + 1\n2\n\nMore.\n\n    >>> x\n    3"
    expected = "Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.\n\n    ```pycon\n    >>> x\n    3\n    ```"
    assert docstrings.to_markdown(text) == expected


def test_literal_blocks_lose_their_mark() -> None:
    """A line of two colons becomes empty, and two colons at the end of a sentence become one."""
    assert docstrings.to_markdown("A.\n\n::\n\n    x = 1") == "A.\n\n\n\n    x = 1"
    assert docstrings.to_markdown("As in::\n\n    x = a[::]") == "As in:\n\n    x = a[::]"


def test_long_names_in_tables_may_wrap() -> None:
    """Code in table cells gets break opportunities, and its text stays equal."""
    code = "<code>tests/a_b.py::test_c</code>"
    page = on_page_content(f"<p>{code}</p><td>{code} a_b</td>")
    assert page.startswith(f"<p>{code}</p>")
    assert page.endswith("<td><code>tests/<wbr>a_<wbr>b.<wbr>py::<wbr>test_<wbr>c</code> a_b</td>")
    assert page.replace("<wbr>", "") == f"<p>{code}</p><td>{code} a_b</td>"


def test_fields_without_docstrings_are_shown(tmp_path: Path) -> None:
    """A model has no signature in the reference, so its fields follow the docstring; a dataclass has one."""
    griffe = pytest.importorskip("griffe", reason="needs griffe: pip install opsdk[docs]")
    source = """
from dataclasses import dataclass
from enum import Enum

class Model:
    '''A model.'''
    name: str
    size: int = 3
    _private = 1

class Colour(Enum):
    '''A colour.'''
    RED = "red"

@dataclass
class Options:
    '''Options.'''
    size: int = 3
"""
    (tmp_path / "kinds.py").write_text(source)
    kinds = griffe.load("kinds", search_paths=[tmp_path])
    assert docstrings.fields_block(kinds["Model"]) == "\n\n```python\nname: str\nsize: int = 3\n```"
    assert docstrings.fields_block(kinds["Colour"]) == "\n\n```python\nRED = 'red'\n```"
    assert docstrings.fields_block(kinds["Options"]) == ""
