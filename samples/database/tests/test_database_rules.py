"""The rules of the webhooks and the conversion, without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from database.api import Database, DatabaseSpec, SecretReference
from database.v1beta1 import CONVERTER, DatabaseV1Beta1, DatabaseV1Beta1Spec
from database.webhooks import VERSIONS, DatabaseRules
from opsdk import ObjectMeta
from opsdk.errors import AdmissionDeniedError
from opsdk.webhook.conversion import check_round_trip
from opsdk.webhook.handlers import AdmissionContext

NAMES = st.text(st.sampled_from("abc-"), min_size=1, max_size=10)
SPECS = st.builds(
    DatabaseSpec,
    engine=st.sampled_from(["postgres", "mysql"]),
    version=st.integers(0, 99).map(str),
    size_gb=st.integers(1, 9_999),
    replicas=st.integers(0, 5),
    credentials=st.builds(SecretReference, name=NAMES),
)
OLD_SPECS = st.builds(
    DatabaseV1Beta1Spec,
    product=st.from_regex(r"\A(postgres|mysql):[0-9]{1,3}\Z"),
    storage=st.integers(1, 9_999).map(lambda size: f"{size}Gi"),
    replicas=st.integers(0, 5),
    secret_name=NAMES,
)
META = ObjectMeta(name="orders", namespace="default", annotations={"team": "shop"})


def database(version: str, engine: str = "postgres") -> Database:
    """A Database of a version."""
    spec = DatabaseSpec(engine=engine, version=version, credentials=SecretReference(name="a"))  # type: ignore[arg-type]
    return Database(metadata=META, spec=spec)


@pytest.mark.parametrize("engine", VERSIONS)
def test_versions_on_offer_are_accepted(engine: str) -> None:
    """The oldest one with a warning."""
    rules, ctx = DatabaseRules(), AdmissionContext()
    warnings = [rules.validate_create(database(version, engine), ctx) for version in VERSIONS[engine]]
    assert warnings == [[f"{engine} {VERSIONS[engine][0]} is the oldest version on offer"], *[[]] * (len(warnings) - 1)]


def test_other_versions_and_downgrades_are_denied() -> None:
    """The cause names the field. A version that is no longer offered may stay."""
    rules, ctx = DatabaseRules(), AdmissionContext()
    with pytest.raises(AdmissionDeniedError, match=r"spec\.version: .*offered in the versions 15, 16, 17"):
        rules.validate_create(database("9"), ctx)
    with pytest.raises(AdmissionDeniedError, match="a database of version 17 cannot be downgraded"):
        rules.validate_update(database("17"), database("16"), ctx)
    with pytest.raises(AdmissionDeniedError, match="offered in the versions"):
        rules.validate_update(database("17"), database("18"), ctx)
    assert rules.validate_update(database("9"), database("9"), ctx) == []
    assert rules.validate_update(database("9"), database("16"), ctx) == []


@given(SPECS)
def test_no_field_of_v1_is_lost(spec: DatabaseSpec) -> None:
    """From v1 to v1beta1 and back."""
    check_round_trip(CONVERTER, Database(metadata=META, spec=spec))


@given(OLD_SPECS)
def test_no_field_of_v1beta1_is_lost(spec: DatabaseV1Beta1Spec) -> None:
    """From v1beta1 to v1 and back."""
    check_round_trip(CONVERTER, DatabaseV1Beta1(metadata=META, spec=spec))
