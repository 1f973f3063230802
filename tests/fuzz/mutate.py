"""Bytes that are nearly right: seeds, cut, spliced and strewn with words that parsers care about. Pure but for `rng`."""

from __future__ import annotations

import random
from collections.abc import Sequence

WORDS = (
    b"null", b"true", b"-1", b"0", b"1e999", b"9223372036854775808", b'""', b"{}", b"[]", b"[[[[[[", b'{"a":{"a":',
    b"\\u0000", b"\\ud800", b"\xff\xfe", b"\x00", b"../..", b"%00", b"*", b"~", b"k8s\x00", b"$patch", b"delete",
    b"$setElementOrder/containers", b"$retainKeys", b"metadata", b"name", b"spec", b"status", b"managedFields",
    b"fieldsV1", b"f:", b'k:{"name":"c"}', b"v:1", b".", b"apiVersion", b"kind", b"v1", b"List", b"finalizers",
    b"\r\n", b"&a ", b"*a", b"<<: ", b"--- ", b"!!python/object:os.system ", b"? ", b"|-", b"\t",
)  # fmt: skip


def mutated(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """One seed, changed a few times."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        _change(data, seeds, rng)
    return bytes(data[:65536])


def _change(data: bytearray, seeds: Sequence[bytes], rng: random.Random) -> None:
    cut = rng.randrange(len(data) + 1)
    end = min(len(data), cut + rng.choice((1, 1, 2, 4, 16, 64)))
    match rng.randrange(8):
        case 0:
            del data[cut:end]
        case 1:
            data[cut:cut] = rng.choice(WORDS)
        case 2:
            data[cut:end] = rng.choice(WORDS)
        case 3 if cut < len(data):
            data[cut] ^= 1 << rng.randrange(8)
        case 4:
            data[cut:cut] = data[cut:end] * rng.choice((1, 2, 50))
        case 5:
            other = rng.choice(seeds)
            start = rng.randrange(len(other) + 1)
            data[cut:end] = other[start : start + rng.randrange(64)]
        case 6:
            data[cut:cut] = rng.randbytes(rng.randrange(4))
        case _:
            del data[cut:]
