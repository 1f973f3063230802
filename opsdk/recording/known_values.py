"""Finds copies of secret values in what is recorded, however many values there are. Pure."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, compress, islice
from typing import Any, Final

import msgspec

from opsdk.errors import OpsdkError

__all__ = ["KnownValues", "Present", "ValueLimitError", "replaced", "replaced_in_msgpack"]

Present = Mapping[bytes, bytes]
"""Values that a text has, and what stands for them."""
_NONE: Final[Present] = {}
MAX_BYTES: Final = 64 << 20
"""Of memory for all values."""
MIN_LENGTH: Final = 8
"""Bytes. Shorter values are not looked for: they occur by chance."""
_WORD: Final = 4
_VALUE_BYTES: Final = 950
"""Of memory for a value, besides its own bytes and the digest: mostly its places in the index."""
_SEARCHED_ONE_BY_ONE: Final = 32
"""Values up to which a search for each of them takes less time than the index."""
_CHOICES: Final = 8
"""Words of a value from which the rarest one is taken: values may have a common begin or end."""


class ValueLimitError(OpsdkError):
    """The values of Secrets take more memory than a recording may use."""


class KnownValues:
    """The values that may have copies, and what stands for them.

    Values are found by words of four bytes. A value has a word at each of four neighbouring places, so wherever a copy
    is in a text, one of these words is at a multiple of four. A word in the index says where a value would begin and
    end. So the time depends on the bytes of the text: 1.3 ms for 100 kB with 1,000 values.

    >>> values = KnownValues()
    >>> values.add(b"correct-horse", b"digest")
    >>> [present] = values.present_in([b"db://correct-horse@db"])
    >>> replaced(b"db://correct-horse@db", present)
    b'db://digest@db'
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._hidden: dict[bytes, bytes] = {}
        self._index: dict[int, set[tuple[int, int]]] = {}
        """For a word: its places in values, and the lengths of these values."""

    def add(self, value: bytes, hidden: bytes) -> None:
        """Look for a value from now on, if it is long enough.

        Args:
            value: as a text has it.
            hidden: what stands for it.

        Raises:
            ValueLimitError: there is no memory left for it.
        """
        if len(value) < MIN_LENGTH or value in self._hidden:
            return
        self._size += len(value) + len(hidden) + _VALUE_BYTES
        if self._size > self._max_bytes:
            raise ValueLimitError(
                f"the operator has read so many Secrets that their values take more than {self._max_bytes >> 20} MiB, "
                "and copies of further values cannot be hidden: let it read fewer Secrets, or keep all values with "
                "RecordingOptions(secrets=True)"
            )
        self._hidden[value] = hidden
        for first in range(_WORD):
            places = range(first, len(value) - _WORD + 1, _WORD)[:_CHOICES]
            rarest = min(places, key=lambda place: len(self._index.get(_word(value, place), ())))
            self._index.setdefault(_word(value, rarest), set()).add((rarest, len(value)))

    def present_in(self, texts: Sequence[bytes]) -> Sequence[Present]:
        """Return the values that each of some texts has, the longest first, with what stands for them."""
        if len(self._hidden) <= _SEARCHED_ONE_BY_ONE:
            text = b"".join(texts)  # all at once: to search each text for each value takes three times the CPU
            return [self._sorted({value for value in self._hidden if value in text})] * len(texts)
        present: list[set[bytes]] = [set() for _ in texts]
        ends = list(accumulate(map(len, texts)))
        for begin, value in self._candidates(b"".join(texts)):
            if value in self._hidden:
                present[bisect_right(ends, begin)].add(value)
        return [self._sorted(values) if values else _NONE for values in present]

    def _sorted(self, values: set[bytes]) -> Present:
        # One may be a part of another.
        return {value: self._hidden[value] for value in sorted(values, key=lambda value: (-len(value), value))}

    def _candidates(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the places and the parts of a text that may be values."""
        index = self._index
        words = memoryview(text)[: len(text) // _WORD * _WORD].cast("I")
        for number in compress(range(len(words)), map(index.__contains__, words)):
            for place, length in index[words[number]]:
                begin = number * _WORD - place
                if begin >= 0:
                    yield begin, text[begin : begin + length]

    def after(self, number: int) -> list[bytes]:
        """Return the values without the first ones, in the order in which they were added."""
        return list(islice(self._hidden, number, None))

    def __contains__(self, value: bytes) -> bool:
        return value in self._hidden

    def __len__(self) -> int:
        return len(self._hidden)

    def __repr__(self) -> str:
        return f"<KnownValues: {len(self)}>"


def _word(value: bytes, place: int) -> int:
    return int.from_bytes(value[place : place + _WORD], sys.byteorder)


def replaced(body: bytes, present: Present) -> bytes:
    """Return a text with what stands for the values that it has."""
    for value, hidden in present.items():
        body = body.replace(value, hidden)
    return body


def replaced_in_msgpack(body: bytes, present: Present) -> bytes:
    """Return MessagePack with what stands for the values in its texts: they have their length before them."""
    if not any(value in body for value in present):
        return body
    return msgspec.msgpack.encode(_replaced_in(msgspec.msgpack.decode(body), lambda text: replaced(text, present)))


def _replaced_in(tree: Any, replace: Callable[[bytes], bytes]) -> Any:
    if isinstance(tree, str):
        return replace(tree.encode()).decode()
    if isinstance(tree, bytes):
        return replace(tree)
    if isinstance(tree, list):
        return [_replaced_in(item, replace) for item in tree]
    if isinstance(tree, dict):
        return {_replaced_in(name, replace): _replaced_in(value, replace) for name, value in tree.items()}
    return tree
