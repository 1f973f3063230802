"""Conversion through the hub, its reviews, and the law of round trips."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from webhook_reviews import NewSite, NewSiteSpec, OldSite, OldSiteSpec, Site, SiteSpec, post, site_tree

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.errors import BadRequestError, ConversionError, UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.prometheus import PrometheusHook
from opsdk.webhook.conversion import HubSpokeConverter, Spoke, check_round_trip, decode_review
from opsdk.webhook.server import WebhookServer

GROUP = "demo.opsdk.dev"


def upgrade(old: OldSite) -> Site:
    """From v1beta1 to v1."""
    return Site(spec=SiteSpec(image=old.spec.picture, replicas=old.spec.count, tags=old.spec.tags))


def downgrade(site: Site) -> OldSite:
    """From v1 to v1beta1."""
    return OldSite(spec=OldSiteSpec(picture=site.spec.image, count=site.spec.replicas, tags=site.spec.tags))


def from_new(new: NewSite) -> Site:
    """From v2alpha1 to v1."""
    return Site(spec=SiteSpec(image=new.spec.source, replicas=new.spec.scale, tags=new.spec.tags))


def to_new(site: Site) -> NewSite:
    """From v1 to v2alpha1."""
    return NewSite(spec=NewSiteSpec(source=site.spec.image, scale=site.spec.replicas, tags=site.spec.tags))


CONVERTER = HubSpokeConverter(Site, Spoke(OldSite, upgrade, downgrade), Spoke(NewSite, from_new, to_new))


def tree_in(version: str) -> JsonObject:
    """The same site in a version."""
    image, replicas = {"v1": ("image", "replicas"), "v1beta1": ("picture", "count"), "v2alpha1": ("source", "scale")}[
        version
    ]
    metadata = {
        "name": "a",
        "namespace": "default",
        "uid": "u",
        "labels": {"x": "y"},
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    }
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Site",
        "metadata": metadata,
        "spec": {image: "nginx", replicas: 2},
    }


VERSIONS = ("v1", "v1beta1", "v2alpha1")


@pytest.mark.behaviour(130)
@pytest.mark.parametrize(("source", "target"), [(a, b) for a in VERSIONS for b in VERSIONS if a != b])
def test_every_version_reaches_every_other(source: str, target: str) -> None:
    """Through the hub, both ways; the metadata stays, fields unknown to the class included."""
    original = tree_in(source)
    assert CONVERTER.convert(original, f"{GROUP}/{target}") == tree_in(target)
    assert original == tree_in(source)


@pytest.mark.behaviour(130)
def test_a_version_is_not_converted_to_itself() -> None:
    """The API server never needs it, so it is an error."""
    with pytest.raises(ConversionError, match="same type"):
        CONVERTER.convert(tree_in("v1"), f"{GROUP}/v1")


@pytest.mark.parametrize("version", [f"{GROUP}/v3", "other/v1", ""])
def test_an_unknown_version_is_an_error(version: str) -> None:
    """The message names the known versions."""
    with pytest.raises(ConversionError, match="v1beta1"):
        CONVERTER.convert(tree_in("v1"), version)


@pytest.mark.behaviour(130)
def test_only_labels_and_annotations_may_change() -> None:
    """A conversion that renames the object fails, and names the field; labels and annotations are its own."""

    def converting(change: Any) -> JsonObject:
        def convert(old: OldSite) -> Site:
            site = upgrade(old)
            site.metadata = old.metadata
            change(site.metadata)
            return site

        return HubSpokeConverter(Site, Spoke(OldSite, convert, downgrade)).convert(tree_in("v1beta1"), f"{GROUP}/v1")

    def relabel(metadata: ObjectMeta) -> None:
        metadata.labels, metadata.annotations = {"z": "1"}, {"was": "v1beta1"}

    metadata = tree_in("v1beta1")["metadata"]
    assert converting(relabel)["metadata"] == {**metadata, "labels": {"z": "1"}, "annotations": {"was": "v1beta1"}}
    for name in ("name", "uid", "namespace"):
        with pytest.raises(ConversionError, match=f"metadata.{name}"):
            converting(lambda metadata, name=name: setattr(metadata, name, "other"))


@pytest.mark.parametrize("hub_first", [True, False])
def test_an_empty_map_removes_the_annotations_and_an_omitted_one_keeps_them(hub_first: bool) -> None:
    """A function that takes the last annotation out removes it; the labels, which it leaves out, stay."""

    def take(old: OldSite) -> Site:
        rest = {key: value for key, value in old.metadata.annotations.items() if key != "was"}
        return Site(metadata=ObjectMeta(annotations=rest), spec=upgrade(old).spec)

    converter = HubSpokeConverter(Site, Spoke(OldSite, take, downgrade), Spoke(NewSite, from_new, to_new))
    original = tree_in("v1beta1")
    original["metadata"]["annotations"] = {"was": "30"}
    converted = converter.convert(original, f"{GROUP}/{'v1' if hub_first else 'v2alpha1'}")
    assert "annotations" not in converted["metadata"]
    assert converted["metadata"]["labels"] == {"x": "y"}
    back = converter.convert(converted, f"{GROUP}/v1beta1")
    assert "annotations" not in back["metadata"]


def test_the_second_function_sees_the_metadata() -> None:
    """The second of two conversion functions gets the metadata, although the first leaves it empty."""

    def annotate(site: Site) -> NewSite:
        new = to_new(site)
        new.metadata = site.metadata
        new.metadata.annotations = {"was": f"{site.metadata.name} {site.metadata.labels}"}
        return new

    converter = HubSpokeConverter(Site, Spoke(OldSite, upgrade, downgrade), Spoke(NewSite, from_new, annotate))
    converted = converter.convert(tree_in("v1beta1"), f"{GROUP}/v2alpha1")
    assert converted["metadata"]["annotations"] == {"was": "a {'x': 'y'}"}


def test_a_converter_is_checked_when_it_is_made() -> None:
    """Versions once each, of one kind, and at least two of them."""
    for spokes, message in (
        ((), "no spoke"),
        ((Spoke(Site, to_new, from_new),), "twice"),
        ((Spoke(ConfigMap, to_new, from_new),), "not versions of one kind"),
    ):
        with pytest.raises(UsageError, match=message):
            HubSpokeConverter(Site, *spokes)  # type: ignore[arg-type]


specs = st.builds(
    OldSiteSpec, picture=st.text(max_size=3), count=st.none() | st.integers(0, 9), tags=st.lists(st.text(max_size=2))
)


@pytest.mark.behaviour(130)
@given(specs)
def test_round_trips(spec: OldSiteSpec) -> None:
    """No data is lost on the way to another version and back."""
    check_round_trip(CONVERTER, OldSite(metadata=ObjectMeta(name="a", labels={"x": "y"}), spec=spec))


def test_a_lossy_conversion_does_not_make_the_round_trip() -> None:
    """The error names version and field."""

    def lose(site: Site) -> OldSite:
        old = downgrade(site)
        old.spec.tags = []
        return old

    lossy = HubSpokeConverter(Site, Spoke(OldSite, upgrade, lose))
    site = Site(metadata=ObjectMeta(name="a"), spec=SiteSpec(image="x", tags=["t"]))
    with pytest.raises(ConversionError, match=r"v1beta1 and back: /spec/tags"):
        check_round_trip(lossy, site)


# ------------------------------------------------------------------ reviews
def serving(*converters: Any) -> WebhookServer:
    """A server with these converters."""
    server = WebhookServer()
    for converter in converters:
        server.register_converter(converter)
    return server


def conversion_review(version: str, *objects: JsonObject) -> bytes:
    """A ConversionReview."""
    request = {"uid": "u7", "desiredAPIVersion": f"{GROUP}/{version}", "objects": objects}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    return json.dumps(review).encode()


@pytest.mark.behaviour(130)
async def test_a_review_may_mix_versions() -> None:
    """Objects come back in order; the uid is that of the request."""
    body = conversion_review("v1", tree_in("v1beta1"), tree_in("v2alpha1"))
    status, answer = await post(serving(CONVERTER), "/convert", body)
    assert (status, answer["apiVersion"], answer["kind"]) == (200, "apiextensions.k8s.io/v1", "ConversionReview")
    assert answer["response"] == {
        "uid": "u7",
        "convertedObjects": [tree_in("v1"), tree_in("v1")],
        "result": {"status": "Success"},
    }


@pytest.mark.behaviour(130)
@pytest.mark.parametrize(
    ("version", "tree", "message"),
    [
        ("v1", site_tree(), "same type"),
        ("v9", site_tree(), "not a version"),
        ("v1", {**tree_in("v1beta1"), "spec": {"count": "many"}}, "count"),
        ("v1", {"apiVersion": "other/v1", "kind": "Site"}, "the API groups differ"),
        ("v1", {"apiVersion": f"{GROUP}/v1beta1", "kind": "Other"}, "has no converter"),
        ("v1", {}, "the API groups differ"),
    ],
    ids=["same", "unknown", "field", "group", "kind", "empty"],
)
async def test_a_failure_is_a_status_in_the_review(version: str, tree: JsonObject, message: str) -> None:
    """HTTP says 200; no object comes back."""
    status, answer = await post(serving(CONVERTER), "/convert", conversion_review(version, tree))
    response = answer["response"]
    assert (status, response["uid"], response["convertedObjects"]) == (200, "u7", [])
    assert response["result"]["status"] == "Failure"
    assert message in response["result"]["message"]


@pytest.mark.behaviour(130)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}',
        b'{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview","request":{}}',
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"objects":[1]}}',
    ],
)
async def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    """A body that is not a ConversionReview gets HTTP 400."""
    status, text = await post(serving(CONVERTER), "/convert", body)
    assert status == 400
    assert "ConversionReview" in text


@pytest.mark.behaviour(130)
async def test_a_conversion_that_raises_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    """The review has a failure without a traceback; the log has the traceback; later reviews are served."""

    def crash(old: OldSite) -> Site:
        return {}["missing"]  # type: ignore[no-any-return]

    metrics = PrometheusHook(CollectorRegistry())
    server = WebhookServer(hook=metrics)
    server.register_converter(HubSpokeConverter(Site, Spoke(OldSite, crash, downgrade)))
    _, answer = await post(server, "/convert", conversion_review("v1", tree_in("v1beta1")))
    assert answer["response"]["result"] == {"status": "Failure", "message": "panic: KeyError: 'missing' [recovered]"}
    assert "in crash" in caplog.text
    assert b"controller_runtime_conversion_webhook_panics_total 1.0" in metrics.expose()
    _, answer = await post(server, "/convert", conversion_review("v1beta1", tree_in("v1")))
    assert answer["response"]["result"] == {"status": "Success"}


def test_a_kind_has_one_converter() -> None:
    """A second converter of a kind is refused."""
    server = serving(CONVERTER)
    with pytest.raises(UsageError, match="already has a converter"):
        server.register_converter(CONVERTER)
    assert CONVERTER.group_kind == GroupKind(GROUP, "Site")


json_objects = st.dictionaries(st.sampled_from(["spec", "request", "kind", "apiVersion"]), st.none() | st.text()).map(
    lambda tree: json.dumps(tree).encode()
)


@given(st.binary(max_size=60) | json_objects)
def test_any_body_decodes_or_raises_an_opsdk_error(body: bytes) -> None:
    """Any body decodes, or raises one of opsdk's errors."""
    with pytest.raises(BadRequestError):
        decode_review(body)


def test_the_converter_names_its_classes() -> None:
    """The converter's classes make the definition, with the hub as storage version."""
    assert CONVERTER.kinds == (Site, OldSite, NewSite)
    assert [v["name"] for v in crd_for(*CONVERTER.kinds)["spec"]["versions"] if v["storage"]] == ["v1"]
