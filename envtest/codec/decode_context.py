"""The error messages of Go's decoders, and when they occur. Pure.

There are two decoders. One reads text: request bodies and most patches. The other reads objects in memory, which
apply and strategic merge patches produce.

Upstream: sigs.k8s.io/json, k8s.io/apimachinery/pkg/runtime/converter.go (v1.36)
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Self

import msgspec

from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.errors import DecodeError
from opsdk.structured_merge.value import JsonValue


class GoKind(Enum):
    """The kind of Go type that a value is decoded into; it decides the message of a type error."""

    TEXT = "string"
    TRUTH = "bool"
    WHOLE = "int"
    REAL = "float64"
    LIST = "slice"
    MAP = "map"
    STRUCT = "struct"
    OWN = "a type that reads JSON itself"


class PathStep(str):
    """A part of a path as Go's decoder names it.

    It omits map keys, and names fields of embedded structs with the embedded struct.
    """

    __slots__ = ("go_path",)

    def __new__(cls, text: str, shown: str = "") -> Self:
        """Create a part; `shown` is its text in Go's messages, empty to omit it."""
        step = super().__new__(cls, text)
        step.go_path = shown
        return step

    go_path: str


INSIDE = PathStep("")
"""The path of a value in a map: the decoder of objects in memory omits map keys."""


class DecodeContext(msgspec.Struct):
    """The position of the decoder in the document, and its errors so far."""

    problems: list[str] = msgspec.field(default_factory=list)
    path: list[str] = msgspec.field(default_factory=list)
    skipped_path_parts: int = 0
    """The number of leading path parts that are omitted from messages: Go decodes this value on its own."""
    struct: str = ""
    from_memory: bool = False
    """The document is an object in memory instead of text."""
    first_error: DecodeError | None = None
    """The first type error. Decoding continues, because a syntax error takes precedence."""

    def at(self) -> str:
        """The path in the format of strict decoding."""
        text = ""
        for part in self.path:
            if part is not INSIDE:
                text += part if part.startswith("[") or not text else f".{part}"
        return text

    def fail_type(self, value: JsonValue, go_type: str, form: GoKind) -> None:
        """Record that a value has the wrong type; raise if the decoder cannot continue."""
        if self.from_memory:
            raise DecodeError(_in_memory(value, go_type, form))
        error = DecodeError(
            f"json: cannot unmarshal {_number_or_kind(value, go_type)} into {self._where()} of type {go_type}"
        )
        if form is GoKind.OWN:
            raise error
        if self.first_error is None:
            self.first_error = error

    def fail(self, text: str) -> None:
        """Record another decoding error; raise if the decoder cannot continue."""
        if self.from_memory:
            raise DecodeError(f"error decoding from json: {text}")
        if self.first_error is None:
            self.first_error = DecodeError(text)

    def _where(self) -> str:
        parts = (part.go_path if isinstance(part, PathStep) else part for part in self.path[self.skipped_path_parts :])
        fields = ".".join(part for part in parts if part and not part.startswith("["))
        return f"Go struct field {self.struct}.{fields}" if fields else "Go value"


_WHOLE = re.compile(r"u?int\d+")


def _number_or_kind(value: JsonValue, go_type: str) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"number {json.dumps(value)}" if number and _WHOLE.fullmatch(go_type) else json_kind(value)


def _in_memory(value: JsonValue, go_type: str, form: GoKind) -> str:
    kind = _kind(value)
    if form is GoKind.OWN:
        return f"json: cannot unmarshal {_number_or_kind(value, go_type)} into Go value of type {go_type}"
    if form is GoKind.STRUCT:
        return f"cannot restore struct from: {kind}"
    if form in (GoKind.LIST, GoKind.MAP):
        return f"cannot restore {form.value} from {kind}"
    if (kind, form) in (("int64", GoKind.TEXT), ("float64", GoKind.WHOLE)):
        return f"cannot convert {kind} to {go_type}"
    return f"unrecognized type: {go_type if form is GoKind.WHOLE else form.value}"


def _kind(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "slice"
    if isinstance(value, dict):
        return "map"
    return "int64" if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else "float64"
