"""Documents of 3 MB are worked on beside the event loop, which serves other requests meanwhile."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType, SimpleNamespace
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_cases import mostly_deep

from benchmarks.runtime.attacked_server import MAPS, VICTIMS
from benchmarks.runtime.attacks import ATTACKS, LARGE, Attack
from envtest.environment import Environment
from opsdk.aio import large_work
from opsdk.aio.large_work import LARGE_BYTES, compute
from opsdk.apimachinery.serializer.documents import SyntaxProblemError, parse_json
from opsdk.apiserver.endpoints import response
from opsdk.apiserver.endpoints.call import Call
from opsdk.base.limits import LIMITS
from opsdk.errors import BadRequestError, InvalidError, TooLargeError
from opsdk.norman.server import writing
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

_CALLS = 1_000_000
"""Calls of functions that the loop makes within 0.1 s. An apply of 3 MB makes 13 million, and YAML of it 90 million."""
_FOLLOWING = (
    "small patch",
    "small patch that changes",
    "read as YAML",
    "read with indents",
    "read with gzip",
    "deletion",
)
"""Requests to the object of the apply."""


@dataclass
class CallCounter:
    """Counts the calls of functions in the thread that started it."""

    calls: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, _frame: FrameType, event: str, _function: object) -> None:
        self.calls += event in {"call", "c_call"}


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    """The in-process connection to an API server with the objects that are attacked."""
    async with Environment() as env, Transport(env.config) as transport:
        for path, tree in VICTIMS:
            assert (await transport.send(RestRequest("POST", path, body=json.dumps(tree).encode()))).status == 201
        yield transport


async def _send(transport: Transport, attack: Attack) -> int:
    """Send 3 MB of an attack, and return the calls that the event loop makes for it."""
    line, headers, body = attack.write(LARGE)
    method, path = line.split()
    with CallCounter() as counter, suppress(BadRequestError, InvalidError, TooLargeError):
        await transport.send(RestRequest(method, path, body=body, headers={"User-Agent": "test", **headers}))
    return counter.calls


@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.parametrize(
    "attack",
    mostly_deep((each for each in ATTACKS if not each.in_head and each.name not in _FOLLOWING), every=2),
    ids=lambda attack: attack.name,
)
async def test_the_loop_does_little_of_the_work_on_a_large_body(attack: Attack, transport: Transport) -> None:
    """Reading, checks, merges and field ownership are not among its calls."""
    assert await _send(transport, attack) < _CALLS


@pytest.mark.slow
@pytest.mark.realtime
async def test_the_loop_does_little_of_the_work_on_a_large_object(transport: Transport) -> None:
    """A small request to a large object is large work too."""
    attacks = {attack.name: attack for attack in ATTACKS}
    await _send(transport, attacks["apply of fields"])
    for name in _FOLLOWING:
        assert await _send(transport, attacks[name]) < _CALLS, name


@pytest.mark.realtime
async def test_small_work_stays_in_the_loop() -> None:
    """A thread would cost a small request a tenth of a millisecond."""
    own = threading.current_thread()
    assert await compute(LARGE_BYTES, threading.current_thread) is own


@pytest.mark.realtime
async def test_large_objects_are_encoded_in_the_thread(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response of a write, of reads that follow, and an error that shows the body; small ones are not."""
    threads: list[str] = []

    def encode(*arguments: Any, **options: Any) -> bytes:
        threads.append(threading.current_thread().name)
        return real(*arguments, **options)

    real = response.encode
    monkeypatch.setattr(response, "encode", encode)
    body = json.dumps({"metadata": {"name": "large"}, "data": {"a": "x" * 600_000}}).encode()
    assert (await transport.send(RestRequest("POST", MAPS, body=body))).status == 201
    for path in ("large", "large", "victim"):
        assert (await transport.send(RestRequest("GET", f"{MAPS}/{path}"))).status == 200
    unknown = json.dumps({"metadata": {"name": "b"}, "b" * 20_000: 1}).encode()
    assert (await transport.send(RestRequest("POST", f"{MAPS}?fieldValidation=Strict", body=unknown))).status == 400
    small = threading.current_thread().name
    assert threads == ["large-work_0"] * 3 + [small, "large-work_0"]


@pytest.mark.realtime
async def test_large_yaml_of_norman_is_written_in_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 1.6 MB takes 0.1 s; a small response is written at once."""
    threads: list[str] = []
    monkeypatch.setattr(writing, "write_yaml", lambda _: threads.append(threading.current_thread().name) or "")
    context: Any = SimpleNamespace(response_format="yaml")
    for size in (1, LARGE_BYTES):
        await writing.write(context, 200, {"a": "x" * size}, page=None, schemas_url="")
    assert threads == [threading.current_thread().name, "large-work_0"]


@pytest.mark.realtime
async def test_large_work_leaves_the_loop_to_other_tasks() -> None:
    """The loop runs other tasks while the one thread works, and errors of the work reach the caller."""
    entered, proceed = threading.Event(), threading.Event()

    def work() -> str:
        entered.set()
        assert proceed.wait(30)
        raise ValueError(threading.current_thread().name)

    working = asyncio.ensure_future(compute(LARGE_BYTES + 1, work))
    while not entered.is_set():
        await asyncio.sleep(0)
    proceed.set()
    with pytest.raises(ValueError, match="large-work"):
        await working


async def test_virtual_time_has_no_other_thread() -> None:
    """A run with a seed repeats exactly, whatever the thread's speed."""
    assert await compute(LARGE_BYTES + 1, threading.current_thread) is threading.current_thread()


@pytest.mark.parametrize(
    ("begin", "unit", "end", "parts"),
    [
        (b"[", b"0,", b"0]", 1),
        (b"[", b"[],", b"0]", 2),
        (b"{", b'"a":0,', b'"a":0}', 2),
        (b"[", b'{"a":[]},', b"0]", 4),
    ],
)
def test_keys_and_values_of_json_are_limited(begin: bytes, unit: bytes, end: bytes, parts: int) -> None:
    """Beyond the limit a document is refused, whatever its shape."""
    with pytest.raises(SyntaxProblemError, match="more than 400000 keys and values"):
        parse_json(begin + unit * (LIMITS.document_values // parts + 1) + end)


@pytest.mark.parametrize("text", ["," * 500_000, '\\"' * 200_000 + ":[{,", "{[:," * 200_000])
def test_marks_within_a_string_are_no_values(text: str) -> None:
    """Only marks outside strings separate keys and values."""
    assert parse_json(b'{"a": "%b"}' % text.encode()).tree == {"a": text.replace("\\", "")}


@given(st.lists(st.integers() | st.sampled_from([0, 1]), max_size=300), st.integers(1, 50))
def test_parts_are_sorted_as_the_whole(numbers: list[int], at_once: int) -> None:
    """The order of `sorted`, whatever the sample."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_work, "_SORTED_AT_ONCE", at_once)
        patch.setattr(large_work, "_PARTS", max(at_once // 3, 1))
        assert large_work.sort_in_parts(numbers, lambda number: -number) == sorted(numbers, key=lambda n: -n)


def test_a_warning_is_found_without_a_search() -> None:
    """An object of 3 MB can have 200,000 unknown fields, and each is a warning."""
    call = Call(http=None, info=None)  # type: ignore[arg-type] - unused
    comparisons = 0

    class Text(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__eq__(self, other)

    for number in range(1000):
        call.warn(Text(number))
    assert (len(call.warnings), comparisons < 1000) == (1000, True)
