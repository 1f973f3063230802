"""Removes values of Secrets, tokens and secret fields from records. Pure, but for what it remembers."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.secret_fields import FieldPath, below, without_secrets
from opsdk.apimachinery.secret_values import digest, with_patch, without_values
from opsdk.recording.known_values import KnownValues
from opsdk.recording.record_texts import texts_of, with_replaced
from opsdk.recording.records import (
    Answered,
    CachedObjects,
    Called,
    Closed,
    ExchangeBegan,
    Failed,
    Received,
    Record,
)
from opsdk.recording.secret_kinds import SecretKinds, resource_of

__all__ = ["Redactor"]

_MAX_EVENT: Final = 16 << 20
"""Bytes of a watch event; a longer one is dropped."""
_MAX_DIGESTS: Final = 256
_ENDS: Final = (b"}", b"}\n")
"""Ends of complete bodies."""
_UNREADABLE: Final = b""
_WRAPPERS: Final = ("items", "object", "oldObject", "objects", "convertedObjects", "request", "response")
"""Fields of lists, events and reviews that hold objects."""
_HTML: Final = re.compile("[<>&\u2028\u2029]")
"""What Go's encoder escapes besides."""


class _Part(Enum):
    """What the bodies of an exchange may have."""

    SECRETS = "secrets"
    TOKENS = "tokens"
    DEFINITIONS = "definitions"
    FIELDS = "fields"
    OTHERS = "others"


class _Subject(msgspec.Struct, frozen=True):
    """What the bodies of an exchange may have. `fields` are those of a resource that hold secrets."""

    part: _Part
    fields: frozenset[FieldPath] = frozenset()


_SECRETS: Final = _Subject(_Part.SECRETS)
_TOKENS: Final = _Subject(_Part.TOKENS)
_DEFINITIONS: Final = _Subject(_Part.DEFINITIONS)
_OTHERS: Final = _Subject(_Part.OTHERS)


class Redactor:
    """Returns records without secrets. Records of one exchange have to come in their order.

    Args:
        key: of the digests that stand for values.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._subjects: dict[int, _Subject] = {}
        """Of exchanges, but for `_OTHERS`."""
        self._watches: dict[int, str] = {}
        """Targets of watches."""
        self._incomplete: dict[int, bytearray] = {}
        """What has arrived of a body, or of the next event of a watch."""
        self._kinds = SecretKinds()
        self._values = KnownValues()
        self._digests: dict[str, str] = {}
        """Of values of Secrets, in base64: a value comes several times."""

    def redact(self, records: Iterable[Record]) -> list[Record]:
        """Return records without secrets. Raises `ValueLimitError` if there are too many to look for."""
        redacted: list[Record] = []
        for record in records:
            if isinstance(record, Received) and record.exchange not in self._subjects:
                redacted.append(record)  # most records of most operators
                if record.is_end:
                    self._watches.pop(record.exchange, None)
                continue
            subject = self._subject(record)
            redacted.append(record if subject is _OTHERS else self._cleaned(record, subject))
        self._hide_values(redacted)
        return redacted

    def values(self, *, after: int) -> list[bytes]:
        """Return the values that were seen, without the first ones."""
        return self._values.after(after)

    def hide(self, records: list[Record]) -> list[Record]:
        """Return redacted records without the values that were seen since then."""
        hidden = list(records)
        self._hide_values(hidden)
        return hidden

    def _subject(self, record: Record) -> _Subject:
        match record:
            case ExchangeBegan():
                subject = self._subject_of(record.target)
                if subject is not _OTHERS:
                    self._subjects[record.exchange] = subject
                    self._incomplete[record.exchange] = bytearray()
                if "watch=" in record.target:
                    self._watches[record.exchange] = record.target
                return subject
            case Received():
                return self._subjects.get(record.exchange, _OTHERS)
            case CachedObjects():
                return self._subject_of(record.collection)
            case Called() | Answered():
                return self._subject_of_review(record)
            case Failed() | Closed():
                self._forget(record.exchange)
        return _OTHERS

    def _subject_of(self, target: str) -> _Subject:
        resource = resource_of(target)
        if resource == ("", "secrets"):
            return _SECRETS
        if resource == ("authentication.k8s.io", "tokenreviews") or target.partition("?")[0].endswith("/token"):
            return _TOKENS
        if resource == ("apiextensions.k8s.io", "customresourcedefinitions"):
            return _DEFINITIONS
        fields = self._kinds.fields_at(resource)
        return _Subject(_Part.FIELDS, fields) if fields else _OTHERS

    def _subject_of_review(self, record: Called | Answered) -> _Subject:
        """Return what a review has. Its answer has the patch of the same object, without its kind."""
        if isinstance(record, Answered) and record.exchange in self._subjects:
            return self._subjects.pop(record.exchange)
        if b'"Secret"' in record.body:
            subject = _SECRETS
        elif fields := self._kinds.fields_in(record.body):
            subject = _Subject(_Part.FIELDS, fields)
        else:
            return _OTHERS
        if isinstance(record, Called):
            self._subjects[record.exchange] = subject
        return subject

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
        """Return a part of a response. A body or an event that comes in several parts is with its last one."""
        rest, data = self._incomplete[record.exchange], b""
        rest += record.data
        if record.exchange in self._watches:
            *lines, tail = bytes(rest).split(b"\n")
            rest[:] = tail if len(tail) <= _MAX_EVENT else b""
            data = b"".join(self._body(line, subject) + b"\n" for line in lines)
        elif rest.endswith(_ENDS) and (data := self._body(bytes(rest), subject)):
            rest.clear()
        if record.is_end:
            self._forget(record.exchange)
        return replace(record, data=data)

    def _forget(self, exchange: int) -> None:
        self._subjects.pop(exchange, None)
        self._watches.pop(exchange, None)
        self._incomplete.pop(exchange, None)

    def _body(self, body: bytes, subject: _Subject) -> bytes:
        try:
            tree = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return _UNREADABLE
        match subject.part:
            case _Part.SECRETS:
                tree = self._without_values(tree)
            case _Part.TOKENS:
                tree = _without_tokens(tree, self._key)
            case _Part.DEFINITIONS:
                self._learn(tree)
                return body
            case _:
                tree = self._without_fields(tree, subject.fields)
        return msgspec.json.encode(tree)

    def _learn(self, tree: Any) -> None:
        """Look for secret fields from now on, also in the watches that are open."""
        if not self._kinds.learn(tree):
            return
        for exchange, target in self._watches.items():
            if exchange not in self._subjects and (subject := self._subject_of(target)) is not _OTHERS:
                # If an event is incomplete now, its rest is no JSON, and dropped.
                self._subjects[exchange], self._incomplete[exchange] = subject, bytearray()

    def _without_fields(self, tree: Any, fields: frozenset[FieldPath]) -> Any:
        """Return an object, a list of them, an event, a review or a patch without the values of secret fields."""
        if isinstance(tree, list):
            return [self._without_fields(item, fields) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if "op" in tree and "path" in tree:  # of a JSON patch
            return {**tree, "value": without_secrets(tree.get("value"), _behind(fields, tree["path"]), self._hidden)}
        if own := self._kinds.fields_of(tree):
            return without_secrets(tree, own, self._hidden)
        if inner := {name: tree[name] for name in _WRAPPERS if isinstance(tree.get(name), dict | list)}:
            return {**tree, **{name: self._without_fields(value, fields) for name, value in inner.items()}}
        if "patchType" in tree:
            return with_patch(tree, lambda patch: self._without_fields(patch, fields))
        return without_secrets(tree, fields, self._hidden)

    def _hidden(self, text: str) -> str:
        hidden = digest(text, self._key, encoded=False)
        self._add_value(text.encode(), hidden)
        return hidden

    def _add_value(self, plain: bytes, hidden: str) -> None:
        """Look for a value in base64, and as a text."""
        encoded = base64.b64encode(plain).decode()
        self._values.add(encoded.encode(), digest(encoded, self._key, encoded=True).encode())
        try:
            text = plain.decode()
        except UnicodeDecodeError:
            return
        for form in _forms(text):
            self._values.add(form, hidden.encode())

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
        if isinstance(answer := tree.get("response"), dict):
            return {**tree, "response": with_patch(answer, self._without_values)}
        parts = {name: self._without_values(tree[name]) for name in ("object", "oldObject") if tree.get(name)}
        if parts:
            return {**tree, **parts}
        if "op" in tree and "path" in tree:  # of a JSON patch
            return {**tree, "value": self._hidden_value(tree.get("value"), encoded=True)}
        return without_values(tree, self._hidden_value)

    def _hidden_value(self, value: object, encoded: bool) -> str:
        """Return what stands for a value of a Secret, and look for the value from now on."""
        text = str(value)
        form = text if encoded else base64.b64encode(text.encode()).decode()
        hidden = self._digests.get(form)
        if hidden is None:
            if len(self._digests) >= _MAX_DIGESTS:
                self._digests.clear()
            hidden = self._digests[form] = digest(form, self._key, encoded=True)
            with suppress(ValueError):
                self._add_value(base64.b64decode(form, validate=True), base64.b64decode(hidden).decode())
        return hidden if encoded else base64.b64decode(hidden).decode()

    def _hide_values(self, records: list[Record]) -> None:
        """Replace the values that were seen."""
        if not self._values:
            return
        for place, present in enumerate(self._values.present_in([*map(texts_of, records)])):
            if present:
                records[place] = with_replaced(records[place], present)


def _forms(text: str) -> set[bytes]:
    """Return how records have a text: as it is, in JSON, and in JSON within JSON. Most texts have one form."""
    once = {text}.union(_in_json(text))
    return {form.encode() for form in once.union(*map(_in_json, once))}


def _in_json(text: str) -> Iterator[str]:
    """Yield the text in JSON of opsdk, of Python and of Go."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    yield plain
    yield json.dumps(text)[1:-1]
    yield _HTML.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)


def _behind(fields: frozenset[FieldPath], pointer: Any) -> frozenset[FieldPath]:
    """Return the secret fields below the place of a JSON pointer."""
    for part in str(pointer).split("/")[1:]:
        fields = below(fields, part.replace("~1", "/").replace("~0", "~"))
    return fields


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
