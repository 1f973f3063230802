"""The webhooks of Website: a defaulter, a validator and the conversion. The rules need no server."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk import Operator
from opsdk.errors import AdmissionDeniedError
from opsdk.webhook.admission import invalid_field
from opsdk.webhook.handlers import AdmissionContext
from website.api import GROUP, Website
from website.v1alpha1 import CONVERTER

PROTECTED = f"{GROUP}/protected"
"""A site with this annotation cannot be deleted."""
MAX_CONTENT = 1_000_000
"""Bytes: the API server stores ConfigMaps of up to 1 MiB. CEL counts characters, so a webhook checks this."""


def set_tag(site: Website, ctx: AdmissionContext) -> None:
    """Default the tag of an image without one."""
    if ":" not in site.spec.image.rpartition("/")[2]:
        site.spec.image += ":stable"
        ctx.warn(f"spec.image has no tag: {site.spec.image} is used")


class WebsiteRules:
    """Rules that the schema cannot express."""

    def validate_create(self, site: Website, _ctx: AdmissionContext) -> Sequence[str]:
        """Limit the size of the page."""
        size = len(site.spec.content.encode())
        if size > MAX_CONTENT:
            cause = invalid_field("spec.content", f"{size} bytes", f"must have at most {MAX_CONTENT} bytes")
            raise AdmissionDeniedError(reason="Invalid", causes=[cause])
        return [] if site.spec.replicas else ["spec.replicas is 0: the site is not served"]

    def validate_update(self, _old: Website, new: Website, ctx: AdmissionContext) -> Sequence[str]:
        """Limit the size of the page, except for a site that is being deleted: its finalizers must be removable."""
        return [] if new.metadata.deletion_timestamp else self.validate_create(new, ctx)

    def validate_delete(self, site: Website, _ctx: AdmissionContext) -> None:
        """Reject the deletion of protected sites."""
        if PROTECTED in site.metadata.annotations:
            raise AdmissionDeniedError(f"remove the annotation {PROTECTED} first")


def add_webhooks(operator: Operator) -> Operator:
    """Serve the webhooks in the operator, and return it."""
    operator.webhook_for(Website).with_defaulter(set_tag).with_validator(WebsiteRules()).with_converter(CONVERTER)
    return operator
