"""The first version of Website, still served, and its conversion. Objects are stored in v1, the hub."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from opsdk import GroupVersionKind, Model, Object
from opsdk.apimachinery.crd import PrinterColumn, Scale
from opsdk.apimachinery.object import deep_copy
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from website.api import GROUP, Website, WebsiteSpec, WebsiteStatus

PORT = f"{GROUP}/port"
"""The annotation that holds ``spec.port`` of v1, for which v1alpha1 has no field."""
DEFAULT_PORT = WebsiteSpec(image="any").port


class WebsiteV1Alpha1Spec(Model, kw_only=True):
    """The desired state of a Website."""

    image: Annotated[str, Meta(min_length=1)]
    size: Annotated[int, Meta(ge=0, le=50, description="The number of servers; replicas in v1.")] = 1
    html: Annotated[str, Meta(description="The page; content in v1.")] = "<h1>Hello</h1>"


class WebsiteV1Alpha1(Object[WebsiteV1Alpha1Spec, WebsiteStatus]):
    """A website in the version before v1."""

    gvk = GroupVersionKind(GROUP, "v1alpha1", "Website")
    deprecated = True
    deprecation_warning = f"{GROUP}/v1alpha1 Website is deprecated: use {GROUP}/v1"
    scale = Scale(spec_replicas_path=".spec.size", status_replicas_path=".status.readyReplicas")
    printer_columns = (
        PrinterColumn(name="Image", json_path=".spec.image"),
        PrinterColumn(name="Size", json_path=".spec.size", type="integer"),
    )


def upgrade(old: WebsiteV1Alpha1) -> Website:
    """Return the site in v1."""
    meta = deep_copy(old.metadata)
    port = meta.annotations.pop(PORT, "")
    valid = port.isdecimal() and 1 <= int(port) <= 65535
    spec = WebsiteSpec(
        image=old.spec.image,
        replicas=old.spec.size,
        content=old.spec.html,
        port=int(port) if valid else DEFAULT_PORT,
    )
    return Website(metadata=meta, spec=spec, status=old.status)


def downgrade(site: Website) -> WebsiteV1Alpha1:
    """Return the site in v1alpha1."""
    meta = deep_copy(site.metadata)
    if site.spec.port != DEFAULT_PORT:
        meta.annotations[PORT] = str(site.spec.port)
    spec = WebsiteV1Alpha1Spec(image=site.spec.image, size=site.spec.replicas, html=site.spec.content)
    return WebsiteV1Alpha1(metadata=meta, spec=spec, status=site.status)


CONVERTER = HubSpokeConverter(Website, Spoke(WebsiteV1Alpha1, to_hub=upgrade, from_hub=downgrade))
