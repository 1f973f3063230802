"""Typed classes from schemas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.client.client import SchemaInfo
from opsdk.norman.client.stubs import typed_client

BOOK = SchemaInfo(
    id="book",
    plural_name="books",
    collection_methods=("GET",),
    resource_fields={
        "name": {"type": "string"},
        "genre": {"type": "enum", "options": ["fable", "novel"]},
        "pages": {"type": "int", "nullable": True},
        "chapters": {"type": "array[chapter]"},
        "notes": {"type": "map[array[json]]"},
        "authorId": {"type": "reference[author]"},
    },
)
CHAPTER = SchemaInfo(id="chapter", resource_fields={"from": {"type": "int"}, "a/b": {"type": "string"}})

fields = st.dictionaries(
    st.text(alphabet="abAB1/ .'\"-", min_size=1, max_size=6),
    st.fixed_dictionaries({"type": st.sampled_from(["string", "int", "map[other]", "array[json]", "x"])}),
    max_size=4,
)


@given(st.dictionaries(st.from_regex(r"[a-z][a-zA-Z.]{0,6}", fullmatch=True), fields, max_size=4))
def test_every_set_of_schemas_makes_a_module_that_compiles(schemas: dict[str, dict[str, dict[str, str]]]) -> None:
    """Field names that are not identifiers, keywords and unknown types do no harm."""
    infos = [SchemaInfo(id=name, resource_fields=own) for name, own in schemas.items()]
    compile(typed_client(infos, class_name="Client", source="x"), "stubs", "exec")


@pytest.mark.slow
def test_the_module_is_typed(tmp_path: Path) -> None:
    """Mypy accepts right uses of it, and refuses wrong ones."""
    (tmp_path / "library.py").write_text(typed_client([BOOK, CHAPTER], class_name="Library", source="the library"))
    (tmp_path / "use.py").write_text(
        "from library import Book, Library\n"
        "async def use(client: Library) -> None:\n"
        "    book = await client.books.by_id('dune')\n"
        "    reveal_type(book['genre'])\n"
        "    reveal_type(book['chapters'][0]['from'])\n"
        "    await client.books.create({'name': 'a', 'genre': 'poem'})\n"
        "    book['nothing']\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "use.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    lines = done.stdout.splitlines()
    assert "Literal['fable'" in lines[0], done.stdout + done.stderr
    assert "int" in lines[1]
    assert "use.py:6: error" in done.stdout
    assert "use.py:7: error" in done.stdout
    assert "library.py" not in done.stdout
