"""Ten attackers send what was expensive once, while another client asks for the server's health."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator

import pytest
from slow_cases import mostly_slow

from benchmarks.runtime.attacked_server import AttackedServer, attacked_server
from benchmarks.runtime.attacks import ATTACKS, LARGE, NORMAN_ATTACKS, SMALL, Attack, exchange

pytestmark = pytest.mark.realtime
_CPU_SECONDS = 1.0
"""CPU of one attack, client and test included: linear work needs a twentieth, and what was quadratic 2 to 100 s."""


_ALL = (*ATTACKS, *NORMAN_ATTACKS)


@pytest.fixture
async def server() -> AsyncIterator[AttackedServer]:
    """A served API server with the objects that are attacked, and norman over it."""
    async with attacked_server() as server:
        yield server


async def _measured(server: AttackedServer, attack: Attack, size: int) -> tuple[bytes, float]:
    """Return the response to an attack, and the seconds of the processor that it took."""
    request = attack.request(size, server.token)
    # A collection takes as long as what other tests have left in this process is large.
    gc.disable()
    try:
        start = time.process_time()
        response = await exchange(_port(server, attack), request)
        return response, time.process_time() - start
    finally:
        gc.enable()


@pytest.mark.parametrize("attack", mostly_slow(_ALL, every=3), ids=lambda attack: attack.name)
async def test_an_attack_costs_little(attack: Attack, server: AttackedServer) -> None:
    """60 KB take a bounded time of the processor, and the response is not an error of the server."""
    response, seconds = await _measured(server, attack, SMALL)

    assert response.startswith(b"HTTP/1.1 ")
    assert not response.startswith(b"HTTP/1.1 5")
    assert seconds < _CPU_SECONDS


@pytest.mark.parametrize(
    "attack", mostly_slow([attack for attack in _ALL if attack.in_head], every=4), ids=lambda attack: attack.name
)
async def test_an_attack_in_a_head_of_a_megabyte_costs_little(attack: Attack, server: AttackedServer) -> None:
    """The largest head takes a bounded time of the processor too: it is read before the user is known."""
    response, seconds = await _measured(server, attack, LARGE)

    assert not response.startswith(b"HTTP/1.1 5")
    assert seconds < _CPU_SECONDS


async def test_the_health_is_answered_beside_ten_attackers(server: AttackedServer) -> None:
    """Every request for the health succeeds, before, between and after the attacks."""
    health = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    attacks = [(_port(server, attack), attack.request(SMALL, server.token)) for attack in _ALL]
    attackers = [asyncio.ensure_future(_play(attacks[n::10])) for n in range(10)]
    answers = 0
    while not all(attacker.done() for attacker in attackers):
        assert (await exchange(server.port, health)).startswith(b"HTTP/1.1 200 ")
        answers += 1
    await asyncio.gather(*attackers)
    assert answers > 1


def _port(server: AttackedServer, attack: Attack) -> int:
    return server.norman_port if attack.on_norman else server.port


async def _play(attacks: list[tuple[int, bytes]]) -> None:
    for port, attack in attacks:
        assert (await exchange(port, attack)).startswith(b"HTTP/1.1 ")
