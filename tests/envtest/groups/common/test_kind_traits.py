"""Kinds of two groups with one plural differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envtest.data.resources import ServedResourceRow, rows
from envtest.data.versions import VERSIONS
from envtest.groups.common.kind_traits import known_traits
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.converted_kinds import versions_of
from tests.envtest.groups.kindkit import row_of
from tests.envtest.groups.trees import known, typing

PLURALS = (
    "/pods", "/services", "/podtemplates", "coordination.k8s.io/leases", "networking.k8s.io/ingresses",
    "rbac.authorization.k8s.io/roles", "storage.k8s.io/volumeattachments",
)  # fmt: skip


def traits(strategy: GeneratedStrategy) -> tuple[object, ...]:
    """What a strategy does besides the rules of its kind."""
    return (
        strategy.has_generation,
        strategy.returns_deleted,
        strategy.allow_create_on_update,
        strategy.allow_unconditional_update,
        strategy.status_keeps,
        tuple(strategy.name_rule("a:b")),
    )


@pytest.mark.parametrize("resource", PLURALS)
def test_another_group_with_the_same_plural_has_no_traits(resource: str) -> None:
    """A resource of another group with the plural of a built-in kind has the traits of an ordinary kind."""
    row = row_of(resource)
    other = ServedResourceRow(replace(row.info, group="other.example.com"), row.verbs)
    unknown = ServedResourceRow(replace(other.info, resource="unknowns"), row.verbs)
    built_in = known().strategy(row, has_status=False)
    assert traits(known().strategy(other, has_status=False)) == traits(GeneratedStrategy(unknown, has_status=False))
    assert traits(built_in) != traits(GeneratedStrategy(unknown, has_status=False))
    assert versions_of(typing(), "other.example.com/v1", "Event") is None


def test_each_row_is_a_served_kind() -> None:
    """Each row of the traits belongs to a kind that a version of Kubernetes serves."""
    assert known_traits() <= {f"{row.info.group}/{row.info.resource}" for version in VERSIONS for row in rows(version)}
