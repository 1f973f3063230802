"""The rules of the webhooks and the conversion, without a server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk import ObjectMeta
from opsdk.errors import AdmissionDeniedError
from opsdk.webhook.conversion import check_round_trip
from opsdk.webhook.handlers import AdmissionContext
from website.api import Website, WebsiteSpec
from website.v1alpha1 import CONVERTER, PORT, WebsiteV1Alpha1, WebsiteV1Alpha1Spec, upgrade
from website.webhooks import MAX_CONTENT, PROTECTED, WebsiteRules, set_tag

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
IMAGES = TEXTS.filter(bool)
LABELS = st.dictionaries(st.sampled_from(["tier", "demo.opsdk.dev/team"]), TEXTS)


def site(**spec: object) -> Website:
    """A Website."""
    return Website(metadata=ObjectMeta(name="a", namespace="default"), spec=WebsiteSpec(**{"image": "nginx:1", **spec}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx", "nginx:stable"),
        ("nginx:1", "nginx:1"),
        ("registry:5000/nginx", "registry:5000/nginx:stable"),
        ("nginx@sha256:ab", "nginx@sha256:ab"),
    ],
)
def test_an_image_gets_a_tag(image: str, expected: str) -> None:
    """Only an image without tag and digest is changed, with a warning; a second call changes nothing."""
    ctx, changed = AdmissionContext(), site(image=image)
    set_tag(changed, ctx)
    set_tag(changed, ctx)
    assert changed.spec.image == expected
    assert len(ctx.warnings()) == (image != expected)


def test_the_page_fits_into_a_config_map() -> None:
    """The limit counts bytes, not characters. A site that is being deleted is not checked."""
    rules, ctx, large = WebsiteRules(), AdmissionContext(), site(content="ü" * (MAX_CONTENT // 2 + 1))
    assert not rules.validate_create(site(content="ü" * (MAX_CONTENT // 2)), ctx)
    with pytest.raises(AdmissionDeniedError, match=r"spec\.content: .* must have at most 1000000 bytes"):
        rules.validate_create(large, ctx)
    with pytest.raises(AdmissionDeniedError):
        rules.validate_update(site(), large, ctx)
    large.metadata.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    assert not rules.validate_update(site(), large, ctx)
    assert rules.validate_create(site(replicas=0), ctx) == ["spec.replicas is 0: the site is not served"]


def test_protected_sites_stay() -> None:
    """The message says how to delete one."""
    rules, protected = WebsiteRules(), site()
    rules.validate_delete(protected, AdmissionContext())
    protected.metadata.annotations[PROTECTED] = ""
    with pytest.raises(AdmissionDeniedError, match=f"remove the annotation {PROTECTED} first"):
        rules.validate_delete(protected, AdmissionContext())


SPECS = st.builds(WebsiteSpec, image=IMAGES, replicas=st.integers(0, 50), port=st.integers(1, 65535), content=TEXTS)


@given(spec=SPECS, labels=LABELS, annotations=LABELS)
def test_no_field_of_v1_is_lost(spec: WebsiteSpec, labels: dict[str, str], annotations: dict[str, str]) -> None:
    """From v1 to v1alpha1 and back, the port included."""
    meta = ObjectMeta(name="a", namespace="default", labels=labels, annotations=annotations)
    check_round_trip(CONVERTER, Website(metadata=meta, spec=spec))


@given(
    image=IMAGES, size=st.integers(0, 50), html=TEXTS, port=st.none() | st.integers(1, 65535).filter(lambda p: p != 80)
)
def test_no_field_of_v1alpha1_is_lost(image: str, size: int, html: str, port: int | None) -> None:
    """From v1alpha1 to v1 and back, the annotation included."""
    meta = ObjectMeta(name="a", namespace="default", annotations={} if port is None else {PORT: str(port)})
    check_round_trip(
        CONVERTER, WebsiteV1Alpha1(metadata=meta, spec=WebsiteV1Alpha1Spec(image=image, size=size, html=html))
    )


@given(st.text())
def test_any_annotation_is_upgraded(text: str) -> None:
    """An annotation that is not a port number means the default port."""
    old = WebsiteV1Alpha1(metadata=ObjectMeta(annotations={PORT: text}), spec=WebsiteV1Alpha1Spec(image="nginx:1"))
    assert 1 <= upgrade(old).spec.port <= 65535
