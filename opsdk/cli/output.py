"""How commands print."""

from __future__ import annotations

from enum import StrEnum


class OutputFormat(StrEnum):
    """For people, or for programs."""

    TEXT = "text"
    JSON = "json"
