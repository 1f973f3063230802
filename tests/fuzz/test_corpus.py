"""What fuzzing found stays fixed, and a little of it runs with every test."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from envtest.environment import Environment
from tests.fuzz.__main__ import CORPUS, SERVER
from tests.fuzz.mutate import mutated
from tests.fuzz.requests import DEFINITION, Bugs
from tests.fuzz.targets import DECODERS

FOUND = sorted(CORPUS.glob("*/*"))


@pytest.fixture
def bugs() -> Iterator[list[str]]:
    handler = Bugs()
    logging.getLogger("opsdk").addHandler(handler)
    yield handler.found
    logging.getLogger("opsdk").removeHandler(handler)


@pytest.mark.parametrize(
    "path", [p for p in FOUND if p.parent.name not in SERVER], ids=lambda p: f"{p.parent.name}-{p.name}"
)
def test_a_finding_of_a_decoder(path: Path) -> None:
    DECODERS[path.parent.name].run(path.read_bytes())


@pytest.mark.parametrize("name", SERVER)
async def test_the_findings_of_requests(name: str, bugs: list[str]) -> None:
    _, answer = SERVER[name]
    async with Environment(crds=[DEFINITION]) as env:
        for path in sorted((CORPUS / name).glob("*")):
            assert 200 <= await answer(env, path.read_bytes()) < 600
            assert bugs == [], path


@pytest.mark.parametrize("name", DECODERS)
def test_a_little_of_each_decoder(name: str) -> None:
    rng = random.Random(7)
    for _ in range(300):
        DECODERS[name].run(mutated(DECODERS[name].seeds, rng))


@pytest.mark.parametrize("name", SERVER)
async def test_a_little_of_requests(name: str, bugs: list[str]) -> None:
    draw, answer = SERVER[name]
    rng = random.Random(7)
    async with Environment(crds=[DEFINITION]) as env:
        for _ in range(600):
            data = draw(rng)
            assert 200 <= await answer(env, data) < 600, data
            assert bugs == [], data
