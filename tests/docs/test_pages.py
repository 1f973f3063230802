"""What the pages in docs/ show is what runs."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest
from documentation import DOCS, PAGES, blocks, name_of, page_module

from opsdk.testing.loop import VirtualLoop

WITH_BLOCKS = [
    page
    for page in PAGES
    if page.parent != DOCS.parent
    and page.name != "observability.md"  # has tests of its own
    and any(block.language == "python" and not block.title for block in blocks(page))
]
SLOW = {"docs/simulation.md"}
PARAMETERS = [
    pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if name_of(page) in SLOW else [])
    for page in WITH_BLOCKS
]


@pytest.mark.parametrize("page", PARAMETERS)
def test_the_examples_run_in_order(page: Path) -> None:
    """The blocks of a page run in one module, one after the other; the tests of a block pass, in virtual time.

    Blocks with a title are files of a project: test_tutorial.py runs them.
    """
    texts = [block.text for block in blocks(page) if block.language == "python" and not block.title]
    with page_module(page) as module:
        for number, text in enumerate(texts):
            before = dict(vars(module))
            exec(compile(text, f"{name_of(page)}[{number}]", "exec"), module.__dict__)
            for name, function in list(vars(module).items()):
                if name.startswith("test_") and before.get(name) is not function:
                    assert not inspect.signature(function).parameters, f"{name} needs fixtures: show it as a file"
                    if (running := function()) is not None:
                        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                            runner.run(running)


def test_the_definition_of_the_custom_resources_page() -> None:
    """The server's checks accept it, rules included."""
    definitions = pytest.importorskip("opsdk.cli.generate.definitions", reason="needs opsdk[envtest]")
    page = DOCS / "custom-resources.md"
    text = next(block.text for block in blocks(page) if "definition = crd_for" in block.text)
    with page_module(page) as module:
        exec(text, module.__dict__)
        (definition,) = definitions.definitions_of([module.Database, module.DatabaseBeta])
    assert definition == module.definition
