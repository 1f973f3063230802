"""The blocking forms of async classes: generated from their source, and checked with it."""

from __future__ import annotations

import importlib
import inspect
import shutil
import sys
from pathlib import Path

import pytest

from opsdk.aio.blocking import BlockingPool
from tools.generate.blocking import MODULES, BlockingModule, render_blocking
from tools.generate.compare import changed
from tools.generate.outputs import outputs_of_classes, outputs_of_root

REPOSITORY = Path(__file__).parents[3]
SOURCE = """
import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import overload

left: list[int] = []

class Numbers:
    limit: int = 7

    @overload
    async def double(self, number: int) -> int: ...
    @overload
    async def double(self, number: str) -> str: ...
    async def double(self, number: int | str) -> int | str:
        return number * 2

    async def check(
        self,
        number: int,
        /,
        *,
        max: int = 3,  # noqa: A002 - as in Go
    ) -> None:
        if number > max:
            raise ValueError(number)

    async def count(self, *, end: int) -> AsyncIterator[int]:
        try:
            for number in range(end):
                yield number
        finally:
            left.append(number)

    @asynccontextmanager
    async def _counting(self) -> AsyncIterator[AsyncIterator[int]]:
        yield self.count(end=2)

    def counting(self) -> AbstractAsyncContextManager[AsyncIterator[int]]:
        return self._counting()

    def task_name(self, *words: str, **more: str) -> str:
        task = asyncio.current_task()
        return f"{task is not None} {words} {more}"

    def computed(self) -> int:
        return 5

    def hidden(self) -> int:
        return 0
"""
NUMBERS = BlockingModule(
    source="numbers_pkg/numbers_async.py",
    target="numbers_pkg/numbers_blocking.py",
    classes={"Numbers": "BlockingNumbers"},
    left_out=frozenset({"hidden"}),
    in_thread=frozenset({"computed"}),
)


async def test_each_form_of_a_method_works_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overloads, keywords, iterators, blocks and plain methods; what is left out has no blocking form."""
    (tmp_path / "numbers_pkg").mkdir()
    (tmp_path / "numbers_pkg/__init__.py").write_text("")
    (tmp_path / NUMBERS.source).write_text(SOURCE)
    text = render_blocking(tmp_path, NUMBERS)
    (tmp_path / NUMBERS.target).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    source, generated = (importlib.import_module(f"numbers_pkg.numbers_{form}") for form in ("async", "blocking"))

    def work() -> list[object]:
        numbers = generated.BlockingNumbers(source.Numbers())
        numbers.check(3)
        with pytest.raises(ValueError, match="4"):
            numbers.check(4)
        with numbers.counting() as counted:
            inner = list(counted)
        for number in numbers.count(end=9):
            if number == 4:
                break
        assert source.left == [1, 4], "leaving the loop closes the iterator before the next statement"
        return [
            numbers.limit,
            numbers.double("a"),
            list(numbers.count(end=3)),
            inner,
            numbers.task_name("x", y="z"),
            numbers.computed(),
        ]

    async with BlockingPool("tests", 1) as pool:
        done = await pool.run(work)
    assert done == [7, "aa", [0, 1, 2], [0, 1], "True ('x',) {'y': 'z'}", 5]
    assert not hasattr(generated.BlockingNumbers, "hidden")
    assert list(inspect.signature(generated.BlockingNumbers.check).parameters) == ["self", "number", "max"]
    assert "# noqa: A002 - as in Go" in text
    for module in (source, generated):
        sys.modules.pop(module.__name__)


def test_the_committed_classes_are_as_generated() -> None:
    """Each blocking class has the methods that its async class has now."""
    assert changed(REPOSITORY, outputs_of_classes(REPOSITORY)) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.source)
def test_a_new_method_reaches_the_blocking_class(tmp_path: Path, module: BlockingModule) -> None:
    """The check finds the file that lacks it, and the generated file has it."""
    for path in (module.source, module.target):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / path, tmp_path / path)
    assert changed(tmp_path, outputs_of_root(tmp_path)) == []
    text = (tmp_path / module.source).read_text()
    header = next(line for line in text.splitlines() if f"class {next(iter(module.classes))}" in line)
    added = f"{header}\n    async def renew(self, seconds: float) -> bool:\n        return seconds > 0\n"
    (tmp_path / module.source).write_text(text.replace(header, added, 1))
    texts = outputs_of_root(tmp_path)
    assert changed(tmp_path, texts) == [module.target]
    assert "    def renew(self, seconds: float) -> bool:" in texts[module.target]
