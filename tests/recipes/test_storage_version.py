"""The storage version of a definition, and outcomes of writes, as values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    InternalServerError,
    InvalidError,
    NotFoundError,
    StorageMigrationError,
    UnauthorizedError,
)
from opsdk.recipes.storage_version import ObjectOutcome, outcome_of, storage_version_of
from opsdk.structured_merge.value import JsonObject


def definition(
    versions: str = "v1*,v1beta1", stored: tuple[str, ...] = ("v1beta1", "v1"), **changes: Any
) -> JsonObject:
    """A definition; ``*`` marks the storage version, ``!`` a version that is not served."""
    tree: JsonObject = {
        "metadata": {"name": "sites.demo.opsdk.dev", "uid": "u", "generation": 2, **changes.pop("metadata", {})},
        "spec": {
            "group": "demo.opsdk.dev",
            "names": {"kind": "Site", "plural": "sites"},
            "versions": [
                {"name": name.strip("*!"), "storage": "*" in name, "served": "!" not in name}
                for name in versions.split(",")
            ],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": list(stored)},
    }
    tree["status"] |= changes
    return tree


@pytest.mark.parametrize(
    ("versions", "stored", "listed", "needed"),
    [
        ("v1*,v1beta1", ("v1beta1", "v1"), "v1", True),
        ("v1*,v1beta1", ("v1",), "v1", False),
        ("v1!*,v1beta1", ("v1beta1", "v1"), "v1beta1", True),
        ("v1beta1,v1*", (), "v1", True),
    ],
)
def test_objects_are_listed_in_the_storage_version_if_it_is_served(
    versions: str, stored: tuple[str, ...], listed: str, needed: bool
) -> None:
    """A migration is needed unless the storage version is the only stored one."""
    storage = storage_version_of(definition(versions, stored))
    assert (storage.version, storage.kind.version, storage.needs_migration) == ("v1", listed, needed)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (definition(conditions=[]), "is not established, .* wait for the condition Established"),
        (
            definition(conditions=[{"type": "NamesAccepted", "status": "False", "message": '"sites" is taken'}]),
            'is not established, .* "sites" is taken',
        ),
        (definition(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "is being deleted"),
        (definition("v1*,v2*"), r"has the storage versions \['v1', 'v2'\]: set `storage` in exactly one"),
        (definition("v1,v2"), r"has the storage versions \[\]"),
        (definition("v1!*"), "serves no version"),
    ],
)
def test_definitions_without_a_storage_version_are_refused(tree: JsonObject, message: str) -> None:
    """The error names the definition, and what to correct."""
    with pytest.raises(StorageMigrationError, match=f"^sites.demo.opsdk.dev {message}"):
        storage_version_of(tree)


@given(changes=st.dictionaries(st.sampled_from(["uid", "generation", "resourceVersion", "labels"]), st.just("other")))
def test_only_uid_and_generation_decide_whether_the_version_may_have_changed(changes: dict[str, str]) -> None:
    """Changes of metadata and status keep the migration valid; a change of the spec and back does not."""
    first, later = storage_version_of(definition()), storage_version_of(definition(metadata=changes))
    assert first.is_still(later) == (not changes.keys() & {"uid", "generation"})


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ConflictError("denied by a webhook"), ObjectOutcome.FAILED),
        (NotFoundError("gone"), ObjectOutcome.GONE),
        (InvalidError("spec.x"), ObjectOutcome.FAILED),
        (InternalServerError("conversion"), ObjectOutcome.FAILED),
        (ForbiddenError("rights"), None),
        (UnauthorizedError("token"), None),
    ],
)
def test_outcomes_of_errors(error: ApiError, outcome: ObjectOutcome | None) -> None:
    """Missing permissions concern every object, so they are not the outcome of a single one."""
    assert outcome_of(error) is outcome
