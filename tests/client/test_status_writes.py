"""Which condition a write of a status contained."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.status_writes import SentCondition, StatusWrite, sent_condition


def tree(reason: str = "", other: str = "") -> dict[str, Any]:
    """Return an object with conditions of these reasons."""
    reasons = {"Ready": reason, "Other": other}
    items = [{"type": name, "status": "True", "reason": each} for name, each in reasons.items() if each]
    return {"status": {"conditions": items}}


def write(request: Any, after: str, before: str | None = "") -> StatusWrite:
    """Return a write of box a."""
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    former = None if before is None else json.dumps(tree(before)).encode
    return StatusWrite("g", "Box", ObjectKey("default", "a"), body, json.dumps(tree(after)).encode(), former)


MINE = ("True", "Mine", "")
REPLACE = {"op": "replace", "value": "Mine"}


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ([], None),
        ([write(tree("Mine"), "Mine")], SentCondition(MINE, True)),
        ([write(tree("Mine"), "Mine", "Mine")], SentCondition(MINE, False)),
        ([write(tree("Mine"), "Mine", None)], SentCondition(MINE, None)),
        ([write(tree(other="x"), "Mine", "Mine")], None),
        ([write({"status": None}, "")], None),
        ([write({"status": {"size": 1}}, "Mine", "Mine")], None),
        ([write(b"", "Mine", "Mine")], SentCondition(MINE, False)),
        ([write([REPLACE | {"path": "/status/conditions/0/reason"}], "Mine", "x")], SentCondition(MINE, True)),
        ([write([REPLACE | {"path": "/status"}], "Mine", "x")], SentCondition(MINE, True)),
        ([write([REPLACE | {"path": "/status/size"}], "Mine", "Mine")], None),
        ([write(b"status:\n", "Mine", "x")], None),
        ([write([7], "Mine", "x")], None),
        ([write(tree("Mine"), "Mine", "x"), write(tree("Mine"), "Mine", "Mine")], SentCondition(MINE, True)),
    ],
)
def test_a_write_contains_the_condition_that_its_body_names(
    writes: list[StatusWrite], expected: SentCondition | None
) -> None:
    """The body decides whether it is contained, the response what it is, and all writes whether it changed."""
    assert sent_condition(writes, "Ready") == expected
