"""``RawExtension`` fields, which keep the JSON text of the request. Pure.

Two such values differ even if only their white space differs. A patch rewrites them without white space.

Upstream: k8s.io/apimachinery/pkg/runtime/extension.go (v1.36).
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecoder

from opsdk.structured_merge.value import JsonObject, JsonValue

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = JSONDecoder()
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


class RawExtension(JsonObject):
    """A JSON object with its original text. It is never changed in place; copies may share it."""

    def __init__(self, value: JsonObject, text: str) -> None:
        super().__init__(value)
        self.text = text


def member(document: str, key: str) -> str | None:
    """Return the text of a member of a valid JSON document's root object, or None.

    >>> member('{"a": 1, "b": {"c": [1, 2]}}', "b")
    '{"c": [1, 2]}'
    """
    value = None
    position = _after_space(document, 0)
    if document[position : position + 1] != "{":
        return None
    position = _after_space(document, position + 1)
    while document[position : position + 1] == '"':
        name, position = _DECODER.raw_decode(document, position)
        start = _after_space(document, _after_space(document, position) + 1)
        _, end = _DECODER.raw_decode(document, start)
        if name == key:
            value = document[start:end]
        position = _after_space(document, end)
        if document[position : position + 1] == ",":
            position = _after_space(document, position + 1)
    return value


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def keep_text(tree: JsonObject, key: str, body: bytes) -> None:
    """Keep the original text of member `key` of a JSON body."""
    value = tree.get(key)
    if isinstance(value, dict):
        text = member(body.decode("utf-8", "replace"), key)
        if text is not None:
            tree[key] = RawExtension(value, text)


def forget_text(tree: JsonObject, key: str, before: JsonObject | None) -> None:
    """Drop the text of member `key`, so that it is encoded again; sort its keys if the patch changed it."""
    value = tree.get(key)
    if not isinstance(value, dict):
        return
    same = before is not None and before.get(key) == value
    tree[key] = dict(value) if same else json.loads(json.dumps(value, sort_keys=True))


def raw_text(value: JsonValue) -> str:
    """Return the text for comparison."""
    if isinstance(value, RawExtension):
        return value.text
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_HTML)
