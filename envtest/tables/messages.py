"""The protobuf messages of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from envtest.tables.plain import is_plain
from opsdk.apiserver.protobuf import Field, Reader

_PACKAGES = {"apiextensions-apiserver": "apiextensions_apiserver", "kube-aggregator": "kube_aggregator"}


@cache
def _blocks() -> Mapping[str, str]:
    text = (Path(__file__).parent / "messages.txt").read_text().removeprefix("message ")
    found = {}
    for block in text.split("\nmessage "):
        name, _, rest = block.partition("\n")
        found[name] = rest
    return found


@cache
def fields_of(message: str) -> Mapping[int, Field] | None:
    """The fields of a message by number."""
    block = _blocks().get(message)
    if block is None:
        return None
    made = {}
    for line in block.splitlines():
        number, name, kind, *marks = line.split()
        kind = kind.removeprefix("map<").removesuffix(">") if "map" in marks else kind
        # The tables keep Go's name of this one.
        shown = {"Raw": "raw"}.get(name, name)
        made[int(number)] = Field(shown, kind, repeated="*" in marks, map="map" in marks)
    return made


def message_of(schema: str) -> str:
    """The message of a schema: ``io.k8s.api.core.v1.Pod`` is ``k8s.io.api.core.v1.Pod``."""
    name = f"k8s.io.{schema.removeprefix('io.k8s.')}"
    for written, spoken in _PACKAGES.items():
        name = name.replace(written, spoken)
    return name


READER = Reader(fields_of, is_plain)
"""Reads the bodies of built-in kinds."""
