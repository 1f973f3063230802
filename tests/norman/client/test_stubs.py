"""Typed classes from schemas."""

from __future__ import annotations

import ast
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
    resource_actions={"lend": {"input": "loan", "output": "receipt"}, "giveBack": {}, "list": {"output": "book"}},
    collection_actions={"import": {"input": "loan"}},
)
LOAN = SchemaInfo(id="loan", resource_fields={"days": {"type": "int"}})
RECEIPT = SchemaInfo(id="receipt", resource_fields={"number": {"type": "int"}})
CHAPTER = SchemaInfo(id="chapter", resource_fields={"from": {"type": "int"}, "a/b": {"type": "string"}})

fields = st.dictionaries(
    st.text(alphabet="abAB1/ .'\"-", min_size=1, max_size=6),
    st.fixed_dictionaries({"type": st.sampled_from(["string", "int", "map[other]", "array[json]", "x"])}),
    max_size=4,
)


names = st.from_regex(r"[a-z][a-zA-Z.]{0,6}", fullmatch=True) | st.text(min_size=1, max_size=6)
actions = st.dictionaries(
    names | st.sampled_from(["list", "create", "import", 'a"""', "\\"]),
    st.fixed_dictionaries({}, optional=dict.fromkeys(("input", "output"), names)),
    max_size=3,
)


@given(st.dictionaries(names, st.tuples(fields, actions, actions), max_size=4), st.text(max_size=8))
def test_every_set_of_schemas_makes_a_module_that_compiles(
    schemas: dict[str, tuple[dict[str, dict[str, str]], dict[str, dict[str, str]], dict[str, dict[str, str]]]],
    source: str,
) -> None:
    """Invalid identifiers, keywords, quotes and unknown types still give a module that compiles."""
    infos = [
        SchemaInfo(
            id=name,
            plural_name=f"{name}s",
            collection_methods=("GET",),
            resource_fields=own,
            resource_actions=on_objects,
            collection_actions=on_collections,
        )
        for name, (own, on_objects, on_collections) in schemas.items()
    ]
    code = typed_client(infos, class_name="Client", source=source)
    tree = ast.parse(code)
    assert all(
        isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef | ast.Assign | ast.Expr) for node in tree.body
    )
    assert sum(isinstance(node, ast.Expr) for node in tree.body) == 1, "the docstring"


@pytest.mark.slow
def test_the_module_is_typed(tmp_path: Path) -> None:
    """Mypy accepts correct uses of the generated module, and rejects wrong ones."""
    (tmp_path / "library.py").write_text(
        typed_client([BOOK, CHAPTER, LOAN, RECEIPT], class_name="Library", source="the library")
    )
    (tmp_path / "use.py").write_text(
        "from library import Book, Library\n"
        "async def use(client: Library) -> None:\n"
        "    book = await client.books.by_id('dune')\n"
        "    reveal_type(book['genre'])\n"
        "    reveal_type(book['chapters'][0]['from'])\n"
        "    await client.books.create({'name': 'a', 'genre': 'poem'})\n"
        "    book['nothing']\n"
        "    reveal_type(await client.books.lend(book, {'days': 7}))\n"
        "    await client.books.lend(book, {'days': 'seven'})\n"
        "    await client.books.give_back(book)\n"
        "    reveal_type(await client.books.list_(book))\n"
        "    await client.books.import_({'days': 7})\n"
        "    await client.books.import_()\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "use.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    lines = done.stdout.splitlines()
    assert "Literal['fable'" in lines[0], done.stdout + done.stderr
    assert "int" in lines[1]
    assert "use.py:6: error" in done.stdout
    assert "use.py:7: error" in done.stdout
    revealed = {line.partition(":")[2].partition(":")[0]: line for line in lines if "Revealed type" in line}
    assert "library.Receipt" in revealed["8"]
    assert "library.Book" in revealed["11"]
    errors = [line.split(":")[1] for line in lines if ": error:" in line]
    assert errors == ["6", "7", "9", "13"]
    assert "library.py" not in done.stdout
