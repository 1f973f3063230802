"""What the short answers promise beyond their own tests."""

from __future__ import annotations

import signal

import pytest
from documentation import DOCS, blocks, page_module

import envtest
from opsdk import Operator


class BrokenSource:
    """A runnable that fails."""

    async def start(self) -> None:
        """Raise an error."""
        raise RuntimeError("no source")


async def test_an_operator_that_fails_ends_the_web_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web server keeps serving after its lifespan has failed, so the answer sends the process SIGTERM."""
    signals: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", signals.append)
    path = DOCS / "howto" / "answers.md"
    operator = Operator("broken")
    operator.setup(lambda built: built.manager.add(BrokenSource()))
    with page_module(path) as page:
        exec(blocks(path)[0].text, page.__dict__)
        async with envtest.Environment() as env:
            manager = operator.prepare(env.config)
            with pytest.raises(RuntimeError, match="no source"):
                await page.run(manager)
    assert signals == [signal.SIGTERM]
