"""The types of Events."""

from typing import Literal

EventType = Literal["Normal", "Warning"]
