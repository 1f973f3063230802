"""Removes values of Secrets and tokens from records. Pure, but for what it remembers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.secret_values import digest, without_values
from opsdk.recording.records import (
    Answered,
    CachedObjects,
    CallBegan,
    Called,
    Closed,
    EventSeriesRecord,
    ExchangeBegan,
    Failed,
    Received,
    Record,
    RepeatedRequest,
    Returned,
)

__all__ = ["Redactor"]

_REMEMBERED: Final = 64
"""Values of Secrets that are looked for in other objects: an operator may copy them. Each one costs 0.1 us a body."""
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
        """Of exchanges, but for `_Subject.OTHERS`."""
        self._watches: dict[int, bytearray] = {}
        self._values: dict[bytes, bytes] = {}

    def redact(self, records: Iterable[Record]) -> list[Record]:
        """Return records without secrets."""
        redacted: list[Record] = []
        searched = 0
        for record in records:
            if isinstance(record, Received) and record.exchange not in self._subjects:
                redacted.append(record)  # most records of most operators
                continue
            if (subject := self._subject(record)) is _Subject.OTHERS:
                redacted.append(record)
                continue
            # Its values may push out those that the records before it have.
            self._hide_values(redacted, searched)
            redacted.append(self._cleaned(record, subject))
            searched = len(redacted)
        self._hide_values(redacted, searched)
        return redacted

    def _subject(self, record: Record) -> _Subject:
        match record:
            case ExchangeBegan():
                subject = _subject_of(record.target)
                if subject is not _Subject.OTHERS:
                    self._subjects[record.exchange] = subject
                    if "watch=" in record.target:
                        self._watches[record.exchange] = bytearray()
                return subject
            case Received():
                return self._subjects.get(record.exchange, _Subject.OTHERS)
            case CachedObjects():
                return _subject_of(record.collection)
            case Called() | Answered() if b'"Secret"' in record.body:
                return _Subject.SECRETS  # reviews of Secrets have their values
            case Failed() | Closed():
                self._forget(record.exchange)
        return _Subject.OTHERS

    def _cleaned(self, record: Record, subject: _Subject) -> Record:
        match record:
            case Received():
                return self._received(record, subject)
            case ExchangeBegan() | Called() | Answered() if record.body:
                return replace(record, body=self._body(record.body, subject))
            case CachedObjects():
                return replace(record, items=tuple(self._body(item, subject) for item in record.items))
        return record

    def _received(self, record: Received, subject: _Subject) -> Received:
        if record.is_end:
            self._forget(record.exchange)
            return record
        rest = self._watches.get(record.exchange)
        if rest is None:
            return replace(record, data=self._body(record.data, subject))
        # An event may come in parts: what is not complete waits for its end.
        rest += record.data
        *lines, tail = bytes(rest).split(b"\n")
        rest[:] = tail if len(tail) <= _MAX_LINE else b""
        return replace(record, data=b"".join(self._body(line, subject) + b"\n" for line in lines))

    def _forget(self, exchange: int) -> None:
        self._subjects.pop(exchange, None)
        self._watches.pop(exchange, None)

    def _body(self, body: bytes, subject: _Subject) -> bytes:
        try:
            tree = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
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
        for form, text, encoded in _forms(secret):
            if len(form) < _MIN_LENGTH:
                continue
            self._values.pop(form, None)
            self._values[form] = digest(text, self._key, encoded=encoded).encode()
            if len(self._values) > _REMEMBERED:
                del self._values[next(iter(self._values))]

    def _hide_values(self, records: list[Record], start: int) -> None:
        """Replace the values of Secrets that were seen, in the records from a place on."""
        if not self._values or start == len(records):
            return
        # All at once: to search each body for each value takes three times the CPU.
        text = b"".join(map(_content, records[start:]))
        present = {value: hidden for value, hidden in self._values.items() if value in text}
        if present:
            records[start:] = [_without(record, present) for record in records[start:]]


def _content(record: Record) -> bytes:
    """Return what of a record may have copies of a Secret's values."""
    match record:
        case Received():
            return record.data
        case CachedObjects():
            return b"".join(record.items)
        case EventSeriesRecord():
            return record.event
        case RepeatedRequest():
            return record.passes
        case ExchangeBegan() | Called() | Answered():
            return record.body
        case CallBegan():
            return record.arguments
        case Returned():
            return record.value
        case Failed():
            return record.message.encode()
    return b""


def _without(record: Record, present: Mapping[bytes, bytes]) -> Record:
    """Return a record with other values in place of some."""
    match record:
        case Received():
            return replace(record, data=_replaced(record.data, present))
        case CachedObjects():
            return replace(record, items=tuple(_replaced(item, present) for item in record.items))
        case EventSeriesRecord():
            return replace(record, event=_replaced(record.event, present))
        case RepeatedRequest():
            return replace(record, passes=_replaced_in_msgpack(record.passes, present))
        case ExchangeBegan() | Called() | Answered():
            return replace(record, body=_replaced(record.body, present))
        case CallBegan():
            return replace(record, arguments=_replaced_in_msgpack(record.arguments, present))
        case Returned():
            return replace(record, value=_replaced_in_msgpack(record.value, present))
        case Failed():
            return replace(record, message=_replaced(record.message.encode(), present).decode())
    return record


def _replaced(body: bytes, present: Mapping[bytes, bytes]) -> bytes:
    for value, hidden in present.items():
        body = body.replace(value, hidden)
    return body


def _replaced_in_msgpack(body: bytes, present: Mapping[bytes, bytes]) -> bytes:
    """Replace values in texts: they have their length before them."""

    def replaced_in(tree: Any) -> Any:
        if isinstance(tree, str):
            return _replaced(tree.encode(), present).decode()
        if isinstance(tree, bytes):
            return _replaced(tree, present)
        if isinstance(tree, list):
            return [replaced_in(item) for item in tree]
        if isinstance(tree, dict):
            return {replaced_in(name): replaced_in(value) for name, value in tree.items()}
        return tree

    return msgspec.msgpack.encode(replaced_in(msgspec.msgpack.decode(body)))


def _subject_of(target: str) -> _Subject:
    if "secrets" not in target and "token" not in target:  # of almost all requests
        return _Subject.OTHERS
    path = target.partition("?")[0]
    parts = path.strip("/").split("/")
    # The address of a server behind a proxy may have a path of its own.
    core = parts[parts.index("api") :] if "api" in parts else []
    if "secrets" in (core[2:3] + core[4:5]):
        return _Subject.SECRETS
    if "tokenreviews" in parts or parts[-1] == "token":
        return _Subject.TOKENS
    return _Subject.OTHERS


def _forms(secret: dict[str, Any]) -> Iterator[tuple[bytes, str, bool]]:
    """Yield the values of a Secret as other bodies may have them: in base64, and as text in JSON.

    With each, the text that its digest is made of, and whether the digest is in base64 too: what decodes a copy has to
    decode its digest. Equal texts have equal digests, in a Secret and elsewhere.
    """
    for field in ("data", "stringData"):
        values = secret.get(field)
        for value in values.values() if isinstance(values, dict) else ():
            if not isinstance(value, str):
                continue
            encoded, plain = value, value.encode()
            if field == "stringData":
                encoded = base64.b64encode(plain).decode()
            else:
                try:
                    plain = base64.b64decode(value, validate=True)
                except ValueError:
                    plain = b""
            yield encoded.encode(), encoded, True
            try:
                text = plain.decode()
            except UnicodeDecodeError:
                continue
            yield json.dumps(text, ensure_ascii=False)[1:-1].encode(), text, False


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
