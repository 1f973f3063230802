"""The folder with what an API server publishes: its schemas, its discovery documents, its protobuf field numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.generate.errors import GenerateError

_FILES = ("schemas-v*.json", "discovery-v*.json", "protobuf-fields-v*.json")


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON file of the folder; its name tells the version, as in ``schemas-v1.36.json``."""

    name: str
    content: Any

    @property
    def version(self) -> str:
        """The version of Kubernetes in the name."""
        return self.name.removesuffix(".json").rpartition("-")[2]


@dataclass(frozen=True, slots=True)
class OpenApi:
    """The three documents."""

    schemas: Document
    discovery: Document
    protobuf: Document

    @property
    def version(self) -> str:
        """The exact version of the server."""
        return str(self.schemas.content["info"]["version"])


def _missing_from(folder: Path) -> str:
    """What the folder lacks, in words; empty if it has one file of each kind."""
    if not folder.is_dir():
        return f"there is no folder {folder}"
    for pattern in _FILES:
        if len(found := sorted(path.name for path in folder.glob(pattern))) != 1:
            return f"{folder} has {'more than one' if found else 'no'} {pattern}"
    return ""


def read_openapi(folder: Path) -> OpenApi:
    """The documents of the folder. Raises `GenerateError` if one is missing or is not JSON."""
    if missing := _missing_from(folder):
        raise GenerateError(
            f"{missing}: give the folder that has {', '.join(_FILES)}, as in `make generate OPENAPI=FOLDER`"
        )
    return OpenApi(*(_read(next(folder.glob(pattern))) for pattern in _FILES))


def _read(path: Path) -> Document:
    try:
        return Document(path.name, json.loads(path.read_text()))
    except ValueError as error:
        raise GenerateError(f"{path} is not JSON: {error}") from error
