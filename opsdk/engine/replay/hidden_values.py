"""Compares what a replay sends with redacted records, and gives responses the values that the replay knows. Pure.

A digest in a recording stands for a value: of a Secret, a token, or a copy of one. A request of the replay has the
value itself. Where the rest of the two is equal, the value is what the digest stands for, and later responses get it in
place of the digest. So an operator that generates a password or a certificate reads it again as it was written.
"""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from typing import Final

import msgspec

from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["HiddenValues", "has_digest"]

# See `opsdk.apimachinery.secret_values.digest`: as text, and in base64.
_DIGEST: Final = re.compile("digest:[0-9a-f]{64}|ZGlnZXN0O[A-Za-z0-9+/]{86}=")
_MARKS: Final = (b"digest:", b"ZGlnZXN0O")
_Pairs = list[tuple[str, str]]


def has_digest(body: bytes) -> bool:
    """Whether a recorded body may have the digest of a value."""
    return any(mark in body for mark in _MARKS)


class HiddenValues:
    """The values that digests of one recording stand for, as far as the replay has shown them.

    >>> hidden, digest = HiddenValues(), "digest:" + 64 * "0"
    >>> hidden.matches(f'{{"password":"{digest}"}}'.encode(), b'{"password":"secret"}')
    True
    >>> hidden.restored(f'{{"url":"db://{digest}@db"}}'.encode())
    b'{"url":"db://secret@db"}'
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._digests: dict[str, str] = {}

    def matches(self, recorded: bytes, replayed: bytes) -> bool:
        """Whether two bodies are equal but for hidden values. Equal digests stand for equal values."""
        if recorded == replayed:
            return True
        if not has_digest(recorded) and not has_digest(replayed) and b'"patchType"' not in recorded:
            return False
        pairs: _Pairs = []
        if not _equal(_tree(recorded), _tree(replayed), pairs):
            return False
        values, digests = dict(self._values), dict(self._digests)
        for digest, value in pairs:
            if values.setdefault(digest, value) != value or digests.setdefault(value, digest) != digest:
                return False
        self._values, self._digests = values, digests
        return True

    def learn(self, digest: str, value: str) -> None:
        """Let a digest stand for a value."""
        self._values[digest], self._digests[value] = value, digest

    def knows(self, digest: str) -> bool:
        """Whether the value of a digest is known."""
        return digest in self._values

    def restored(self, body: bytes) -> bytes:
        """Return the JSON of a response with the values that are known."""
        if not self._values or not has_digest(body):
            return body
        return _DIGEST.sub(lambda match: self._in_json(match[0]), body.decode(errors="surrogateescape")).encode(
            errors="surrogateescape"
        )

    def _in_json(self, digest: str) -> str:
        value = self._values.get(digest)
        return digest if value is None else json.dumps(value, ensure_ascii=False)[1:-1]


def _tree(body: bytes) -> JsonValue:
    """Return a body as a tree: arguments of calls are MessagePack. Other bodies are one text."""
    for decode in (msgspec.json.decode, msgspec.msgpack.decode):
        try:
            tree: JsonValue = decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
        return tree
    return body.decode(errors="surrogateescape")


def _equal(recorded: JsonValue, replayed: JsonValue, pairs: _Pairs) -> bool:
    """Whether two trees are equal but for hidden values, which are added to `pairs` with their digests."""
    if isinstance(recorded, str) and isinstance(replayed, str):
        # Short values are hidden in Secrets only. Elsewhere, the recording has the value, and the replay
        # the digest that it has read.
        return recorded == replayed or _add_pairs(recorded, replayed, pairs) or _add_pairs(replayed, recorded, pairs)
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        if "patchType" in recorded:  # the response of a webhook
            recorded, replayed = _with_decoded_patch(recorded), _with_decoded_patch(replayed)
        names = list(recorded)
        return names == list(replayed) and all(_equal(recorded[name], replayed[name], pairs) for name in names)
    if isinstance(recorded, list) and isinstance(replayed, list):
        both = zip(recorded, replayed, strict=False)
        return len(recorded) == len(replayed) and all(_equal(one, other, pairs) for one, other in both)
    return type(recorded) is type(replayed) and recorded == replayed


def _with_decoded_patch(response: JsonObject) -> JsonObject:
    try:
        return {**response, "patch": _tree(base64.b64decode(str(response.get("patch")), validate=True))}
    except ValueError:
        return response


def _add_pairs(hidden: str, shown: str, pairs: _Pairs) -> bool:
    """Compare a text that has digests with one that has values in their places."""
    digests = list(_DIGEST.finditer(hidden))
    if not digests:
        return False
    start = digests[0].start()
    if hidden[:start] != shown[:start]:
        return False
    found_pairs: _Pairs = []
    for mark, following in pairwise([*digests, None]):
        assert mark is not None
        between = hidden[mark.end() : following.start() if following is not None else None]
        end = shown.find(between, start) if following is not None and between else len(shown) - len(between)
        if end < start or shown[end : end + len(between)] != between:
            return False
        found_pairs.append((mark[0], shown[start:end]))
        start = end + len(between)
    pairs += found_pairs
    return start == len(shown)
