"""Names of schemas and fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.norman.importing.names import field_name, lower_title, nested_id


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Catalog", "catalog"), ("NFSVolume", "nfsVolume"), ("X", "x"), ("TLS", "tls"), ("site", "site"), ("", "")],
)
def test_ids_of_classes(name: str, expected: str) -> None:
    """The id starts in lower case; an acronym at the start is one word, as in norman's LowerTitle."""
    assert lower_title(name) == expected


@given(st.from_regex(r"\A[a-z][a-z0-9]*(_[a-z0-9]+)*\Z"))
def test_field_names_are_stable(attribute: str) -> None:
    """An external name is its own external name, and has no underscore."""
    name = field_name(attribute)
    assert field_name(name) == name
    assert "_" not in name


def test_nested_ids_have_letters_and_digits_only() -> None:
    """Other characters separate the words of a nested id."""
    assert nested_id("site", "x-a.b_c") == "siteXABC"
