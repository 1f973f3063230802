"""Docstrings become Markdown for the site."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from site_pages import dead_links, read_page, read_site, untyped_rows

from opsdk import Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.builder.reconciler_options import ReconcilerOptions
from tools.site.hooks import on_page_content
from tools.site.links import link_names

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


SOURCE = """
from typing import TypedDict, Unpack


class Options:
    '''Options.

    Attributes:
        size: how large.
        names: all of them.
    '''

    size: int = 3
    names: list[str] = field(default_factory=list)


class More:
    '''More options.

    Attributes:
        size: see `Options`.
        other: see `Options`.
    '''

    size: int = 3
    other: int = 4


class Keywords(TypedDict, total=False):
    '''Keywords; see `Options`.'''

    size: int


class Box:
    '''A box, made by `fill`; `Other` is unknown.

    Attributes:
        width: in metres.
        kind: of the box.
        lid: its lid.
    '''

    def __init__(self, width: float) -> None:
        self.width = width
        self.kind = "wood"
        self.lid = Lid()

    def fill(self, width: int, **options: Unpack[Keywords]) -> None:
        '''Fill a `Box` up to its `width`. See `Keywords`.

        Args:
            width: not the attribute.
            options: see there.

        Raises:
            ValueError: it is full.
        '''


class Lid:
    '''A lid.'''
"""


@pytest.fixture
def source(tmp_path: Path) -> Any:
    """A module as the extension leaves it."""
    griffe = pytest.importorskip("griffe", reason="needs griffe: pip install opsdk[docs]")
    members = pytest.importorskip("tools.site.members")
    (tmp_path / "boxes.py").write_text(SOURCE)
    extensions = griffe.load_extensions(members.MembersExtension)
    return griffe.load("boxes", search_paths=[tmp_path], extensions=extensions, docstring_parser="google")


def items_of(obj: Any, kind: str) -> dict[str, tuple[str, str]]:
    """Return type and default of each item of a section, by name."""
    section = next(section for section in obj.docstring.parsed if section.kind.value == kind)
    return {item.name: (str(item.annotation), str(item.value)) for item in section.value}


def test_attributes_get_types_and_defaults(source: Any) -> None:
    """A type comes from the annotation, the literal, the parameter or the constructor; only fields have defaults."""
    assert items_of(source["Options"], "attributes") == {"size": ("int", "3"), "names": ("list[str]", "list()")}
    expected = {"width": ("float", "None"), "kind": ("str", "None"), "lid": ("Lid", "None")}
    assert items_of(source["Box"], "attributes") == expected


def test_a_text_that_only_refers_is_replaced(source: Any) -> None:
    """An attribute whose text names a class gets the text of that class's attribute, if it has one."""
    texts = {item.name: item.description for item in source["More"].docstring.parsed[1].value}
    assert texts["size"] == "how large."
    assert texts["other"].startswith("see ")


def test_keywords_are_a_table(source: Any) -> None:
    """The keywords of a TypedDict replace the row of ``**options``, with texts and defaults of the options' class."""
    sections = source["Box.fill"].docstring.parsed
    assert [section.kind.value for section in sections] == ["text", "parameters", "other parameters", "raises"]
    assert items_of(source["Box.fill"], "parameters") == {"width": ("int", "None")}
    assert items_of(source["Box.fill"], "other parameters") == {"size": ("int", "3")}
    assert sections[2].value[0].description == "how large."


def test_the_defaults_of_reconciler_are_those_of_its_table() -> None:
    """An operator with the defaults of each keyword declares what an operator without keywords does."""
    members = pytest.importorskip("tools.site.members", reason="needs griffe: pip install opsdk[docs]")
    types = {name: hint.__forward_arg__ for name, hint in ReconcilerOptions.__annotations__.items()}
    defaults = {name: ast.literal_eval(members.empty_value(hint)) for name, hint in types.items()}

    async def reconcile(config: ConfigMap) -> None: ...

    plain, explicit = Operator("a"), Operator("a")
    plain.reconciler(ConfigMap)(reconcile)
    explicit.reconciler(ConfigMap, **defaults)(reconcile)
    assert explicit.rules() == plain.rules()


def test_code_spans_link_to_entries(source: Any) -> None:
    """A name that the scope knows is linked; parameters, the entry itself and unknown names are not."""
    text = source["Box.fill"].docstring.value
    assert text.startswith('Fill a <autoref identifier="boxes.Box" optional>`Box`</autoref> up to its `width`.')
    assert "made by <autoref" in source["Box"].docstring.value
    assert "`Other` is unknown" in source["Box"].docstring.value


def test_the_first_name_of_a_page_is_linked() -> None:
    """Later ones, headings, links and code blocks stay as they are."""
    target = {"Box": "boxes.Box"}
    linked = '<autoref identifier="boxes.Box" optional><code>Box</code></autoref>'
    unchanged = "<h2><code>Box</code></h2><a href='x'><code>Box</code></a><pre><code>Box</code></pre>"
    assert (
        link_names(f"{unchanged}<p><code>Box</code> <code>Box</code></p>", target)
        == f"{unchanged}<p>{linked} <code>Box</code></p>"
    )


def test_a_reader_finds_rows_without_types_and_dead_links(tmp_path: Path) -> None:
    """Rows are those of tables behind a section's title; links lead to files and to ids."""
    table = (
        '<h2 id="boxes.Box">Box</h2><p><span class="doc-section-title">Attributes:</span></p><table><tr><th>Name</th>'
        "<th>Type</th></tr><tr><td><code>size</code></td><td>{}</td></tr></table>"
    )
    other = "<table><tr><th>Name</th><th>Type</th></tr><tr><td>x</td><td></td></tr></table>"
    (tmp_path / "a.html").write_text(table.format("<code>int</code>") + other + '<a href="b.html#there">b</a><br>')
    (tmp_path / "b.html").write_text('<p id="there"><a href="#nowhere">x</a> <a href="c.html">c</a></p>')
    pages = read_site(tmp_path)
    assert [row.cells for page in pages.values() for row in page.rows] == [{"Name": "size", "Type": "int"}]
    assert list(untyped_rows(pages)) == []
    assert list(dead_links(pages, tmp_path)) == ["b.html links to #nowhere", "b.html links to c.html"]
    assert list(untyped_rows({tmp_path: read_page(table.format(""))})) == [
        f"{tmp_path.name}: boxes.Box: Attributes: size"
    ]
