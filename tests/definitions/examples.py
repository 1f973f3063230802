"""Objects of a project's repository: each that its definition accepts decodes, and encodes to an equal tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.object import TypedObject
from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.apiserver.validation import CustomKinds
from opsdk.cli.validate.documents import SUFFIXES
from opsdk.errors import DecodeError
from opsdk.structured_merge.value import JsonObject, JsonValue


class ExampleResult(NamedTuple):
    """What became of the objects of a folder.

    Attributes:
        equal: objects that go round.
        refused: objects that neither the class nor the definition accepts.
        problems: the others.
    """

    equal: int
    refused: int
    problems: list[str]


def round_trips(
    folder: Path, classes: Mapping[GroupVersionKind, type[TypedObject]], kinds: CustomKinds
) -> ExampleResult:
    """Send each object of the classes through its class. Equal objects count once."""
    equal, refused, problems = 0, 0, []
    for file, tree in _objects(folder):
        gvk = GroupVersionKind.parse(tree["apiVersion"], tree["kind"])
        if gvk not in classes:
            continue
        try:
            again = msgspec.json.decode(encode(decode(msgspec.json.encode(tree), kind_of(classes[gvk]))))
        except DecodeError as error:
            # A create drops the status, so the definition accepts any.
            if "status" in str(error) or list(kinds.problems(gvk, tree, None, lambda _: None)):
                refused += 1
            else:
                problems.append(f"{file}: {error}")
            continue
        if _without_nulls(again) == _without_nulls(tree):
            equal += 1
        else:
            problems.append(f"{file}: {gvk.kind} differs after a round trip")
    return ExampleResult(equal, refused, problems)


def _objects(folder: Path) -> Iterator[tuple[Path, JsonObject]]:
    """Yield the different objects of the files that are YAML or JSON: templates are not."""
    before = set()
    for file in sorted(each for each in folder.rglob("*") if each.suffix in SUFFIXES and each.is_file()):
        try:
            documents = read_documents(file.read_bytes())
        except SyntaxProblemError:
            continue
        for tree in documents:
            if not (isinstance(tree, dict) and all(isinstance(tree.get(key), str) for key in ("apiVersion", "kind"))):
                continue
            text = msgspec.json.encode(tree, order="sorted")
            if text not in before:
                before.add(text)
                yield file, tree


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value
