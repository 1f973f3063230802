"""The protobuf field numbers of a version, from the ``generated.proto`` files of a checkout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.generate.extract.go_structs import STAGING

ProtoField = tuple[int, str, str, str]
"""Number, name, type, and ``optional``, ``repeated`` or ``map``."""

_SCALARS = frozenset({"string", "bytes", "bool", "int32", "int64", "double", "uint32", "uint64", "float"})
_PACKAGE = re.compile(r"^package (?P<name>[\w.]+);$", re.MULTILINE)
_MESSAGE = re.compile(r"^message (?P<name>\w+) \{$(?P<body>.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^  (?:(?P<label>optional|repeated) (?P<type>[\w.]+)|(?P<map>map<[\w., ]+>)) (?P<name>\w+) = (?P<number>\d+);",
    re.MULTILINE,
)


def read_protobuf(checkout: Path) -> dict[str, list[ProtoField]]:
    """Return the fields of every message by its full name."""
    messages: dict[str, list[ProtoField]] = {}
    for path in sorted((checkout / STAGING).rglob("generated.proto")):
        messages |= dict(_messages(path.read_text()))
    return messages


def _messages(text: str) -> Iterator[tuple[str, list[ProtoField]]]:
    package = _PACKAGE.search(text)
    assert package is not None, "gogo's generator writes a package into each file"
    for message in _MESSAGE.finditer(text):
        fields = sorted(_field(match, package["name"]) for match in _FIELD.finditer(message["body"]))
        yield f"{package['name']}.{message['name']}", fields


def _field(match: re.Match[str], package: str) -> ProtoField:
    if match["map"]:
        return int(match["number"]), match["name"], match["map"], "map"
    kind = match["type"].removeprefix(".")
    full = kind if kind in _SCALARS or kind.startswith("k8s.io.") else f"{package}.{kind}"
    return int(match["number"]), match["name"], full, match["label"]
