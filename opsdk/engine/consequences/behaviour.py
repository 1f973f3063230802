"""What the run says about the operator itself: refused requests, loops, a failure. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.plan import Consequence, ConsequenceKind, Severity
from opsdk.engine.recording import RefusedRequest, failing_subject

__all__ = ["behaviour_consequences"]


def _advice(refusal: RefusedRequest) -> str:
    """Return what to do if RBAC refused a request, and not a webhook or validation.

    Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go, forbiddenMessage (v1.36)
    """
    _, _, user = refusal.message.partition(': User "')
    is_missing = refusal.status == HTTPStatus.FORBIDDEN and '" cannot ' in user
    return ": declare the permission in rbac=[...], or pass --all-permissions" if is_missing else ""


def behaviour_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield what the operator did that it should not do."""
    outcome, subject = evidence.outcome, f"operator {evidence.operator}"
    if outcome.failure:
        yield Consequence(ConsequenceKind.OPERATOR_FAILED, Severity.DANGER, subject, outcome.failure)
    for refusal in outcome.refused:
        times = f" ({refusal.count} times)" if refusal.count > 1 else ""
        message = f"{refusal.method} {refusal.path} is refused{times}: {refusal.message}{_advice(refusal)}"
        yield Consequence(ConsequenceKind.REFUSED, Severity.DANGER, subject, message)
    for reason in outcome.refused_changes:
        yield Consequence(ConsequenceKind.REFUSED, Severity.DANGER, "your change", f"is refused: {reason}")
    for record in outcome.failing:
        unread = evidence.unread_by(record.controller, failing_subject(record))
        may_pass = f" (it looks at {unread[0]}, which was not read)" if unread else ""
        message = f"its reconcile fails, also at the end{may_pass}: {record.detail}"
        severity = Severity.WARNING if unread else Severity.DANGER
        yield Consequence(ConsequenceKind.RECONCILE_FAILS, severity, failing_subject(record), message)
    for text in (*outcome.hot_loops, *map(str, outcome.loops)):
        yield Consequence(ConsequenceKind.LOOP, Severity.DANGER, subject, text)
    if not outcome.reached and not outcome.failure and not outcome.hot_loops:
        message = f"it still writes after {outcome.seconds:.0f} s of virtual time"
        yield Consequence(ConsequenceKind.NO_FIXPOINT, Severity.DANGER, subject, message)
