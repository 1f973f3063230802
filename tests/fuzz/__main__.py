"""Fuzzes for a while: ``make fuzz``, or ``python -m tests.fuzz --seconds 60 [target ...]``.

A finding is printed with its traceback and kept in ``tests/fuzz/corpus/<target>``, where the tests find it.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import random
import re
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from envtest.environment import Environment
from tests.fuzz import objects, requests
from tests.fuzz.mutate import mutated
from tests.fuzz.requests import DEFINITION, Bugs
from tests.fuzz.targets import DECODERS

CORPUS = Path(__file__).parent / "corpus"
SERVER: dict[str, tuple[Callable[[random.Random], bytes], Callable[[Environment, bytes], Awaitable[int]]]] = {
    "requests": (partial(mutated, requests.SEEDS), requests.answer),
    "objects": (objects.drawn, objects.answer),
}
"""How requests of a sort are drawn and sent."""
_PLACE = re.compile(r'File "[^"]*", line \d+')


def keep(target: str, data: bytes, why: str) -> None:
    """Print a finding and write it down: one of each sort, as the place says where it arose."""
    place = CORPUS / target / hashlib.sha256("".join(_PLACE.findall(why)[-2:]).encode()).hexdigest()[:16]
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    print(f"--- {target}: {data[:200]!r}\n{why}\nkept in {place}")


def fuzz_decoder(name: str, seconds: float, rng: random.Random) -> tuple[int, int]:
    """How many inputs were tried, and how many were found."""
    target = DECODERS[name]
    seeds = [*target.seeds, *(p.read_bytes() for p in sorted((CORPUS / name).glob("*")))]
    end, tried, result = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        data = mutated(seeds, rng)
        tried += 1
        began = time.monotonic()
        try:
            target.run(data)
        except Exception:  # noqa: BLE001 - any is a finding
            result += 1
            keep(name, data, traceback.format_exc(limit=-4))
        if time.monotonic() - began > 2:
            result += 1
            keep(name, data, f"took {time.monotonic() - began:.1f} s")
    return tried, result


async def fuzz_server(name: str, seconds: float, rng: random.Random) -> tuple[int, int]:
    """The same for a whole server."""
    bugs = Bugs()
    logging.getLogger("opsdk").addHandler(bugs)
    logging.getLogger("opsdk").propagate = False
    draw, answer = SERVER[name]
    end, tried, result = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        async with Environment(crds=[DEFINITION]) as env:
            for _ in range(2000):
                if time.monotonic() >= end:
                    break
                data = draw(rng)
                tried += 1
                try:
                    await answer(env, data)
                except Exception:  # noqa: BLE001 - any is a finding
                    bugs.found.append(traceback.format_exc(limit=-4))
                if bugs.found:
                    result += 1
                    keep(name, data, bugs.found[0][-1500:])
                    bugs.found.clear()
    return tried, result


def main() -> int:
    """Every target for its share of the time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="*", help="names of targets; all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="in all")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    names = options.targets or [*SERVER, *DECODERS]
    rng = random.Random(options.seed)
    print(f"seed {options.seed}")
    total = 0
    for name in names:
        # What goes through the whole server gets half of the time.
        whole = [n for n in names if n in SERVER]
        alike = whole if name in SERVER else [n for n in names if n not in SERVER]
        seconds = options.seconds * (1.0 if len(alike) == len(names) else 0.5) / len(alike)
        if name in SERVER:
            tried, result = asyncio.run(fuzz_server(name, seconds, rng))
        else:
            tried, result = fuzz_decoder(name, seconds, rng)
        print(f"{name}: {tried} inputs, {result} findings")
        total += result
    return 1 if total else 0


if __name__ == "__main__":
    raise SystemExit(main())
