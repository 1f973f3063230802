"""Warn about objects, refuse them, and complete them."""

from __future__ import annotations

from opsdk import LabelSelector, Operator
from opsdk.errors import AdmissionDeniedError
from opsdk.webhook.configurations import WebhookRule
from opsdk.webhook.handlers import AdmissionContext
from tests.examples.kopf.kinds import Example


def validate(example: Example, ctx: AdmissionContext) -> None:
    """Warn about the user and the status, and refuse some values."""
    ctx.warn(f"accessing as {ctx.user.username}")
    if example.spec.field == "wrong" and not ctx.dry_run:
        raise AdmissionDeniedError("change the field")
    if example.spec.field == "not-allowed":
        raise AdmissionDeniedError("the field is not allowed", reason="Conflict")
    if (example.status.field if example.status else "") != example.spec.field:
        if ctx.subresource == "status":
            raise AdmissionDeniedError("status.field must be equal to spec.field")
        ctx.warn("also update status.field to match spec.field")


def validate_update(old: Example, new: Example, ctx: AdmissionContext) -> None:
    """Check a change as a new object."""
    validate(new, ctx)


def inject(example: Example, ctx: AdmissionContext) -> None:
    """Set a field."""
    example.spec.injected = 123


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("admission")
    labelled = WebhookRule(object_selector=LabelSelector(match_labels={"somelabel": "somevalue"}))
    webhooks = operator.webhook_for(Example).with_defaulter(inject, rule=labelled)
    webhooks.with_validator(create=validate, update=validate_update, rule=WebhookRule(subresources=["status"]))
    return operator
