"""What a replica may send at rest."""

from __future__ import annotations

import pytest

from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.invariants import calm_violations, restart_violations

PATH = "/api/v1/namespaces/default/configmaps/a"


@pytest.mark.parametrize(
    ("method", "status", "is_unrest"),
    [
        ("DELETE", 404, False),  # as `delete(missing_ok=True)` in each reconcile
        ("DELETE", 200, True),
        ("DELETE", 409, True),
        ("PATCH", 200, True),
        ("PATCH", 404, True),
        ("POST", 409, True),
        ("GET", 200, False),
    ],
)
def test_at_rest_nothing_is_written(method: str, status: int, *, is_unrest: bool) -> None:
    """A deletion of an object that does not exist writes nothing; each other write is a violation."""
    exchanges = [Exchange(time=0.0, client="a", method=method, target=PATH, status=status)]
    assert bool(restart_violations(exchanges)) == is_unrest
    assert bool(calm_violations(exchanges, 60.0)) == is_unrest
