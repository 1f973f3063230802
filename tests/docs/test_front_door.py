"""README, docs and samples import only what the project documents as public."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from documentation import reference_entries

import opsdk
from tools.generate.public_api import read_products

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {module for product in read_products(ROOT) for module in product.modules} | {
    # What their modules document, but not as a list of names.
    "envtest.environment",
    "opsdk.testing",
}
"""The public modules; generated kinds are public too."""
SUBMODULES = {"envtest.environment", "opsdk.testing"}
"""Those without an ``__all__``."""


def sources() -> list[tuple[str, str]]:
    """Each Python file of the samples, and each Python block of the pages."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [
        (f"{page.relative_to(ROOT)}[{number}]", block)
        for page in pages
        for number, block in enumerate(re.findall(r"```python[^\n]*\n(.*?)```", page.read_text(), re.DOTALL))
    ]
    return blocks + [(str(p.relative_to(ROOT)), p.read_text()) for p in sorted((ROOT / "samples").rglob("*.py"))]


def imported(text: str) -> set[str]:
    """The modules of opsdk that a text imports from."""
    nodes = list(ast.walk(ast.parse(text)))
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {module for module in modules if module.split(".")[0] == "opsdk"}


@pytest.mark.parametrize(("where", "text"), sources(), ids=lambda value: value if len(value) < 60 else "text")
def test_examples_use_the_public_modules(where: str, text: str) -> None:
    """An example that needs an inner module shows that the public surface lacks something."""
    inner = {module for module in imported(text) if module not in PUBLIC and not module.startswith("opsdk.api.")}
    assert not inner, f"{where} imports {inner}: export the name from opsdk or a documented module"


def test_examples_import_public_names() -> None:
    """A name that an example imports from a public module is in its ``__all__``."""
    inner = {
        f"{where}: {node.module}.{alias.name}"
        for where, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module in PUBLIC - SUBMODULES
        for alias in node.names
        if alias.name not in importlib.import_module(node.module).__all__
    }
    assert sorted(inner) == []


def test_every_imported_module_has_a_reference_entry() -> None:
    """Each module that README, pages and samples import is in the reference, except generated kinds."""
    entries = "\n".join(reference_entries())
    modules = {module for _, text in sources() for module in imported(text)}
    missing = [
        m for m in modules if not m.startswith("opsdk.api.") and not re.search(rf"^{m}\b", entries, re.MULTILINE)
    ]
    assert sorted(missing) == []


def test_the_front_door_has_few_names() -> None:
    """The names of ``opsdk`` are sorted, importable, equal for type checkers, and at most 60."""
    assert len(opsdk.__all__) <= 60
    assert opsdk.__all__ == sorted(opsdk.__all__)
    stub = (ROOT / "opsdk" / "__init__.pyi").read_text()
    assert sorted(re.findall(r"import (\w+) as \1\n", stub)) == opsdk.__all__
    for name in opsdk.__all__:
        assert getattr(opsdk, name) is not None
