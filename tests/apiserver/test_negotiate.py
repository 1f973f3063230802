"""Which form of answer a client accepts."""

from __future__ import annotations

import pytest

from opsdk.apiserver.endpoints.negotiate import METADATA as MEMBERS
from opsdk.apiserver.endpoints.negotiate import NOTHING, OBJECT_KINDS, TYPED, WHOLE, negotiate
from opsdk.errors import NotAcceptableError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("header", "media", "kind"),
    [
        ("", "application/json", ""),
        ("*/*", "application/json", ""),
        ("application/*", "application/json", ""),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json", ""),
        ("application/vnd.kubernetes.protobuf, */*", "application/json", ""),
        ("application/json;q=0.1, application/yaml", "application/yaml", ""),
        (f"{TABLE},application/json", "application/json", "Table"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "application/json", ""),
    ],
)
def test_the_best_clause_that_can_be_served(header: str, media: str, kind: str) -> None:
    """Order and quality decide; what is not served is passed over."""
    accepted = negotiate(header, OBJECT_KINDS)
    assert (accepted.media, accepted.kind) == (media, kind)


@pytest.mark.parametrize("header", ["text/html", "application/xml", "application/json;v=9"])
def test_nothing_fits(header: str) -> None:
    """A client that accepts nothing we have gets a 406."""
    with pytest.raises(NotAcceptableError):
        negotiate(header, OBJECT_KINDS)


PROTOBUF = "application/vnd.kubernetes.protobuf"
METADATA = f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("header", "binary", "media", "kind"),
    [
        (f"{PROTOBUF},application/json", TYPED, PROTOBUF, ""),
        (f"{PROTOBUF}, */*", TYPED, PROTOBUF, ""),
        (f"application/json, {PROTOBUF}", TYPED, "application/json", ""),
        (f"{PROTOBUF};stream=watch", TYPED, PROTOBUF, ""),
        (f"{PROTOBUF}, */*", MEMBERS, "application/json", ""),
        (f"{METADATA},application/json", MEMBERS, PROTOBUF, "PartialObjectMetadata"),
        (f"{METADATA},application/json", WHOLE, "application/json", ""),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,{TABLE}", TYPED, "application/json", "Table"),
        (f"{PROTOBUF}, */*", NOTHING, "application/json", ""),
    ],
)
def test_protobuf_where_it_comes_first(header: str, binary: frozenset[str], media: str, kind: str) -> None:
    """Who prefers protobuf gets it for what has that form: everything built in, all metadata, no tables."""
    accepted = negotiate(header, OBJECT_KINDS, binary=binary)
    assert (accepted.media, accepted.kind) == (media, kind)
