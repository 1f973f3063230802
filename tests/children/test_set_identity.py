"""The marks of a set: read and written as wrangler and the ApplySet specification say."""

from __future__ import annotations

import base64
import gzip
import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk import GroupVersionKind, ObjectKey, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.gvk import GroupKind
from opsdk.children.set_identity import (
    APPLIED,
    HASH,
    SetIdentity,
    SetOwner,
    applied_form,
    decode_applied,
    encode_applied,
    format_group_kinds,
    parse_group_kinds,
)
from opsdk.errors import UsageError

SITE = SetOwner(GroupVersionKind("demo.dev", "v1", "Site"), ObjectKey("default", "web"))
VALUES = st.recursive(st.none() | st.booleans() | st.integers(0, 9) | st.text("ab", max_size=70), st.lists)
names = st.text("abcdefgh", min_size=1, max_size=5)


def test_the_marks_are_those_of_wrangler() -> None:
    """Wrangler's GetLabelsAndAnnotations: the hash is the SHA-1 of id, owner kind, name and namespace."""
    identity = SetIdentity("parts", SITE)
    assert identity.annotations == {
        "objectset.rio.cattle.io/id": "parts",
        "objectset.rio.cattle.io/owner-gvk": "demo.dev/v1, Kind=Site",
        "objectset.rio.cattle.io/owner-name": "web",
        "objectset.rio.cattle.io/owner-namespace": "default",
    }
    assert identity.hash == hashlib.sha1(b"partsdemo.dev/v1, Kind=Sitewebdefault", usedforsecurity=False).hexdigest()
    assert SetOwner.read(identity.annotations) == SITE
    core = SetIdentity("", SetOwner(GroupVersionKind("", "v1", "ConfigMap"), ObjectKey("a", "b")))
    assert core.annotations["objectset.rio.cattle.io/owner-gvk"] == "/v1, Kind=ConfigMap"
    assert SetOwner.read(core.annotations) == core.owner
    assert SetIdentity("only-id").annotations == {"objectset.rio.cattle.io/id": "only-id"}


def test_an_object_is_marked_by_label_and_annotations() -> None:
    """A copied label alone marks nothing; another version of the owner's kind is the same set."""
    identity = SetIdentity("parts", SITE)
    meta = ObjectMeta(name="a", labels={HASH: identity.hash}, annotations=identity.annotations)
    assert identity.marks(ConfigMap(metadata=meta))
    assert not identity.marks(ConfigMap(metadata=ObjectMeta(name="a", labels={HASH: identity.hash})))
    newer = SetIdentity("parts", SetOwner(GroupVersionKind("demo.dev", "v2", "Site"), SITE.key))
    assert newer.is_set_of(ConfigMap(metadata=meta))
    assert not SetIdentity("parts").is_set_of(ConfigMap(metadata=meta))
    assert not SetIdentity("other", SITE).is_set_of(ConfigMap(metadata=meta))


def test_a_set_needs_an_identity() -> None:
    """Bad input: without id and owner every such set would be the same."""
    with pytest.raises(UsageError, match="a set_id or an owner"):
        SetIdentity("")


def test_an_annotation_of_go_is_read() -> None:
    """Go's gzip header and padding-free base64, plain JSON, and garbage of all kinds."""
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    data = gzip.compress(msgspec.json.encode(tree), mtime=0)
    go = data[:9] + b"\xff" + data[10:]  # Go writes 255, an unknown operating system
    assert decode_applied(base64.b64encode(go).decode().rstrip("=")) == tree
    assert decode_applied('{"kind":"ConfigMap"}') == {"kind": "ConfigMap"}
    for garbage in ("", "{", "!", "abc", base64.b64encode(b"text").decode(), base64.b64encode(data[:20]).decode()):
        assert decode_applied(garbage) is None
    assert decode_applied(base64.b64encode(gzip.compress(b"[1]")).decode()) is None


@given(st.dictionaries(names, VALUES, max_size=4))
def test_an_annotation_round_trips(content: dict[str, object]) -> None:
    """The annotation holds the applied form, which is its own applied form."""
    tree = {**content, "metadata": {"name": "a", "annotations": {APPLIED: "old", "b": "c"}}}
    decoded = decode_applied(encode_applied(tree))
    assert decoded == applied_form(tree) == applied_form(applied_form(tree))
    assert decoded["metadata"] == {"name": "a", "annotations": {"b": "c"}}


@given(st.sets(st.builds(GroupKind, st.sampled_from(["", "apps", "a.b.dev"]), names), max_size=4))
def test_kinds_of_an_apply_set_round_trip(kinds: set[GroupKind]) -> None:
    """Kinds are written as the specification says, and read back."""
    assert set(parse_group_kinds(format_group_kinds(kinds))) == kinds
