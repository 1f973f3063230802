"""Removes values of Secrets and tokens from records. Pure, but for what it remembers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.secret_values import digest, without_values
from opsdk.recording.records import (
    Answered,
    CachedObjects,
    Called,
    Closed,
    ExchangeBegan,
    Failed,
    Received,
    Record,
    Returned,
)

__all__ = ["Redactor"]

_REMEMBERED: Final = 64
"""Values of Secrets that are looked for in other objects: an operator may copy them. Each one costs 0.2 us a body."""
_MIN_LENGTH: Final = 8
"""Shorter values are not looked for: they occur by chance."""
_MAX_LINE: Final = 16 << 20
"""Bytes of a watch event; a longer one is dropped."""
_UNREADABLE: Final = b""


class _Subject(Enum):
    """What the bodies of an exchange may have."""

    SECRETS = "secrets"
    TOKENS = "tokens"
    OTHERS = "others"


class Redactor:
    """Returns records without secrets. Records of one exchange have to come in their order.

    Args:
        key: of the digests that stand for values.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._subjects: dict[int, _Subject] = {}
        self._watches: dict[int, bytearray] = {}
        self._values: dict[bytes, bytes] = {}

    def redact(self, record: Record) -> Record:
        """Return a record without secrets."""
        match record:
            case ExchangeBegan():
                subject = self._subjects[record.exchange] = _subject_of(record.target)
                if "watch=" in record.target and subject is not _Subject.OTHERS:
                    self._watches[record.exchange] = bytearray()
                body = self._body(record.body, subject) if record.body else record.body
                return record if body is record.body else replace(record, body=body)
            case Received():
                return self._received(record)
            case Called() | Answered():
                # Reviews of Secrets have their values.
                subject = _Subject.SECRETS if b'"Secret"' in record.body else _Subject.OTHERS
                return replace(record, body=self._body(record.body, subject))
            case CachedObjects():
                subject = _subject_of(record.collection)
                return replace(record, items=tuple(self._body(item, subject) for item in record.items))
            case Returned():
                return replace(record, value=self._without_known_values(record.value))
            case Failed() | Closed():
                self._forget(record.exchange)
        return record

    def _received(self, record: Received) -> Received:
        if record.is_end:
            self._forget(record.exchange)
            return record
        subject = self._subjects.get(record.exchange, _Subject.OTHERS)
        rest = self._watches.get(record.exchange)
        if rest is None:
            data = self._body(record.data, subject)
            return record if data is record.data else replace(record, data=data)
        # An event may come in parts: what is not complete waits for its end.
        rest += record.data
        *lines, tail = bytes(rest).split(b"\n")
        rest[:] = tail if len(tail) <= _MAX_LINE else b""
        return replace(record, data=b"".join(self._body(line, subject) + b"\n" for line in lines))

    def _forget(self, exchange: int) -> None:
        self._subjects.pop(exchange, None)
        self._watches.pop(exchange, None)

    def _body(self, body: bytes, subject: _Subject) -> bytes:
        if subject is _Subject.OTHERS:
            return self._without_known_values(body)
        try:
            tree = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return _UNREADABLE
        cleaned = self._without_values(tree) if subject is _Subject.SECRETS else _without_tokens(tree, self._key)
        return msgspec.json.encode(cleaned)

    def _without_values(self, tree: Any) -> Any:
        """Return a Secret, a list of them, an event or a patch without values."""
        if isinstance(tree, list):
            return [self._without_values(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if isinstance(items := tree.get("items"), list):
            return {**tree, "items": [self._without_values(item) for item in items]}
        if isinstance(review := tree.get("request"), dict):
            return {**tree, "request": self._without_values(review)}
        parts = {name: self._without_values(tree[name]) for name in ("object", "oldObject") if tree.get(name)}
        if parts:
            return {**tree, **parts}
        if "op" in tree and "path" in tree:  # of a JSON patch
            return {**tree, "value": digest(tree.get("value"), self._key, encoded=True)}
        self._remember(tree)
        return without_values(tree, self._key)

    def _remember(self, secret: dict[str, Any]) -> None:
        for form in _forms(secret):
            if len(form) < _MIN_LENGTH:
                continue
            self._values.pop(form, None)
            self._values[form] = digest(form, self._key, encoded=False).encode()
            if len(self._values) > _REMEMBERED:
                del self._values[next(iter(self._values))]

    def _without_known_values(self, body: bytes) -> bytes:
        for value, hidden in self._values.items():
            if value in body:
                body = body.replace(value, hidden)
        return body


def _subject_of(target: str) -> _Subject:
    path = target.partition("?")[0]
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"] and "secrets" in (parts[2:3] + parts[4:5]):
        return _Subject.SECRETS
    if "tokenreviews" in parts or parts[-1] == "token":
        return _Subject.TOKENS
    return _Subject.OTHERS


def _forms(secret: dict[str, Any]) -> Iterator[bytes]:
    """Yield the values of a Secret as other bodies may have them: in base64, and as text in JSON."""
    for field in ("data", "stringData"):
        values = secret.get(field)
        for value in values.values() if isinstance(values, dict) else ():
            if not isinstance(value, str):
                continue
            plain = value.encode()
            if field == "data":
                yield plain
                try:
                    plain = base64.b64decode(value, validate=True)
                except ValueError:
                    continue
            else:
                yield base64.b64encode(plain)
            try:
                yield json.dumps(plain.decode(), ensure_ascii=False)[1:-1].encode()
            except UnicodeDecodeError:
                continue


def _without_tokens(tree: Any, key: bytes) -> Any:
    if isinstance(tree, list):
        return [_without_tokens(item, key) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        name: digest(value, key, encoded=False)
        if name == "token" and isinstance(value, str)
        else _without_tokens(value, key)
        for name, value in tree.items()
    }
