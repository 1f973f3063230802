"""Ten attackers send what was expensive once, while another client asks for the server's health."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from benchmarks.runtime.attacks import ATTACKS, SMALL, VICTIMS, Attack, exchange
from envtest.environment import Environment
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

pytestmark = pytest.mark.realtime
_CPU_SECONDS = 1.0
"""CPU of one attack, client and test included: linear work needs a twentieth, and what was quadratic 2 to 100 s."""


@pytest.fixture
async def server() -> AsyncIterator[tuple[int, str]]:
    """A served API server with the objects that are attacked: its port, and a token of its admin."""
    async with Environment() as env:
        async with Transport(env.config) as transport:
            for path, tree in VICTIMS:
                request = RestRequest("POST", path, body=json.dumps(tree).encode())
                assert (await transport.send(request)).status == 201
        web = await env.serve(tls=False)
        yield web.port, env._admin_token


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_an_attack_costs_little(attack: Attack, server: tuple[int, str]) -> None:
    """60 KB take a bounded time of the processor, and the response is no error of the server."""
    port, token = server
    request = attack.request(SMALL, token)
    start = time.process_time()
    response = await exchange(port, request)
    seconds = time.process_time() - start

    assert response.startswith(b"HTTP/1.1 ")
    assert not response.startswith(b"HTTP/1.1 5")
    assert seconds < _CPU_SECONDS


async def test_the_health_is_answered_beside_ten_attackers(server: tuple[int, str]) -> None:
    """Every request for the health succeeds, before, between and after the attacks."""
    port, token = server
    health = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    attacks = [attack.request(SMALL, token) for attack in ATTACKS]
    attackers = [asyncio.ensure_future(_play(port, attacks[n::10])) for n in range(10)]
    answers = 0
    while not all(attacker.done() for attacker in attackers):
        assert (await exchange(port, health)).startswith(b"HTTP/1.1 200 ")
        answers += 1
    await asyncio.gather(*attackers)
    assert answers > 1


async def _play(port: int, attacks: list[bytes]) -> None:
    for attack in attacks:
        assert (await exchange(port, attack)).startswith(b"HTTP/1.1 ")
