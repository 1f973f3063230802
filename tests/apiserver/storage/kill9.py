"""Kills writers: ``python -m tests.apiserver.storage.kill9 1000``. Each is a process that writes to one database.

A writer says of each write, after it returned, what it wrote and at which revision. At a moment that nobody chose it is
killed with -9. Then the database is opened again: every write that was said to be done must be there, and no revision
may be smaller than one that was seen before.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path

from opsdk.apiserver.storage.ports import KeyNotFoundError
from opsdk.apiserver.storage.sqlite import SqliteStorage

KEYS = 20
PREFIX = "core/configmaps/default/"


def write(path: Path, ack: int, seed: int) -> None:
    """Create, replace and remove objects until the process is killed."""
    rng = random.Random(seed)
    storage = SqliteStorage(path)
    for number in range(10**9):
        name = f"o{rng.randrange(KEYS)}"
        key = f"{PREFIX}{name}"
        data = {"n": f"{seed}-{number}", "x": "x" * rng.randrange(2000)}
        value = {"metadata": {"name": name}, "data": data}
        try:
            if rng.random() < 0.2:
                storage.delete_now(key)
                message = f"{name} - {storage.current_rv}\n"
            else:
                with suppress(KeyNotFoundError):
                    storage.delete_now(key)
                stored = storage.create_now(key, value)
                message = f"{name} {seed}-{number} {stored['metadata']['resourceVersion']}\n"
        except KeyNotFoundError:
            continue
        os.write(ack, message.encode())


def one_round(path: Path, seed: int, seen: dict[str, tuple[str, int]], floor: int) -> int:
    """Let a writer live for a moment, then look; returns the revision that was found."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            write(path, writer, seed)
        except BaseException:  # noqa: BLE001 - a fork must not go on as if it were its parent
            traceback.print_exc()
        os._exit(1)
    os.close(writer)
    raw = b""
    rng = random.Random(-seed)
    end = time.monotonic() + 5
    chance = rng.randrange(1, 12)
    while raw.count(b"\n") < chance and time.monotonic() < end:
        if select.select([reader], [], [], 0.5)[0]:
            chunk = os.read(reader, 65536)
            assert chunk, "the writer ended by itself"
            raw += chunk
    time.sleep(rng.random() * 0.0005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while chunk := os.read(reader, 65536):
        raw += chunk
    os.close(reader)
    return check(path, raw.decode(), seen, floor)


def check(path: Path, said: str, seen: dict[str, tuple[str, int]], floor: int) -> int:
    """Compare the stored objects with the acknowledged writes, and update `seen`."""
    for line in said.splitlines():
        name, value, revision = line.split()
        seen[name] = (value, int(revision))
        floor = max(floor, int(revision))
    storage = SqliteStorage(path)
    try:
        assert storage.current_rv >= floor, f"the revision went back from {floor} to {storage.current_rv}"
        result = {key.removeprefix(PREFIX): value for key, value in storage.list_now(PREFIX).items}
        for name, (value, revision) in seen.items():
            stored = result.get(name)
            have = "-" if stored is None else stored["data"]["n"]
            # The last write may have been done and not said: then what is there is younger.
            younger = stored is not None and int(stored["metadata"]["resourceVersion"]) > revision
            unsaid = (stored is None and value != "-" and storage.current_rv > floor) or younger
            assert have == value or unsaid, f"{name}: said {value} at {revision}, found {have}"
        seen.clear()
        seen.update({n: (v["data"]["n"], int(v["metadata"]["resourceVersion"])) for n, v in result.items()})
        return storage.current_rv
    finally:
        storage.close()


def main(rounds: int) -> int:
    """So many writers, one after the other; returns how many writes survived their writer."""
    floor, began = 0, time.perf_counter()
    last_writes: dict[str, tuple[str, int]] = {}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "objects.db"
        for seed in range(1, rounds + 1):
            floor = one_round(path, seed, last_writes, floor)
    took = time.perf_counter() - began
    print(f"{rounds} writers killed with -9 in {took:.1f} s: {floor} revisions, none lost, none went back")
    return floor


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
