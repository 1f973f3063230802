"""What no recording has is found in the code of an operator, without a call."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from opsdk.recording.unrecorded import unrecorded_calls

PROGRAMS = {
    "import uuid\ndef f(): return uuid.uuid4()": ["uuid.uuid4"],
    "from uuid import uuid4\ndef f(): return str(uuid4())": ["uuid.uuid4"],
    "import datetime\ndef f(): return datetime.datetime.now()": ["datetime.now"],
    "from datetime import datetime\ndef f():\n  def g(): return datetime.now()\n  return g": ["datetime.now"],
    "import time\nclass A:\n  @staticmethod\n  def f(): return time.time()": ["time.time"],
    "import httpx\nclass A:\n  async def f(self):\n    return httpx.AsyncClient()": ["requests of httpx"],
    "from httpx import AsyncClient\nasync def f(): return AsyncClient()": ["requests of httpx"],
    "import httpx\nfrom opsdk.recording.httpx_transport import RecordedTransport\n"
    "async def f():\n  return httpx.AsyncClient(transport=RecordedTransport(name='dns'))": [],
    "import asyncio\nasync def f(): await asyncio.to_thread(print)": ["asyncio.to_thread"],
    "from datetime import datetime\ndef f(ctx): return datetime.fromisoformat(ctx.now.isoformat())": [],
    "import secrets, random, time\ndef f(): time.monotonic(); random.random(); return secrets.token_hex()": [],
    "def f(ctx): ctx.time.time(); return ctx.uuid.uuid4()": [],
    "import time\nnow = time.time": [],
}
"""Code, and what it uses."""


@pytest.mark.parametrize("code", PROGRAMS)
def test_what_code_uses_is_named_with_its_line(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under any name, in any function; an attribute of another object with the same name is not."""
    module = ModuleType("some_operator")
    monkeypatch.setitem(sys.modules, "some_operator", module)
    exec(compile(code, "some_operator.py", "exec"), vars(module))
    calls = unrecorded_calls(["some_operator"])
    assert [each.partition(" (")[0] for each in calls] == PROGRAMS[code]
    assert all(" (some_operator.py:" in each for each in calls)


def test_a_module_that_is_not_imported_uses_nothing() -> None:
    """A recording does not import it."""
    assert unrecorded_calls(["no_such_module"]) == ()
