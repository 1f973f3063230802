"""What the run says about the operator itself: refused requests, loops, a failure. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.tree_names import kind_in
from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.plan import Consequence, ConsequenceKind, Severity

__all__ = ["behaviour_consequences"]


def behaviour_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield what the operator did that it should not do."""
    outcome, subject = evidence.outcome, f"operator {evidence.operator}"
    if outcome.failure:
        yield Consequence(
            kind=ConsequenceKind.OPERATOR_FAILED, severity=Severity.DANGER, subject=subject, message=outcome.failure
        )
    for refusal in outcome.refused:
        times = f" ({refusal.count} times)" if refusal.count > 1 else ""
        yield Consequence(
            kind=ConsequenceKind.REFUSED,
            severity=Severity.DANGER,
            subject=subject,
            message=f"{refusal.method} {refusal.path} is refused: {refusal.message}{times}",
        )
    for reason in outcome.refused_changes:
        yield Consequence(
            kind=ConsequenceKind.REFUSED,
            severity=Severity.DANGER,
            subject="your change",
            message=f"is refused: {reason}",
        )
    for record in outcome.failing:
        yield Consequence(
            kind=ConsequenceKind.RECONCILE_FAILS,
            severity=Severity.DANGER,
            subject=f"{kind_in(record.kind) or record.controller} {ObjectKey(record.namespace, record.name)}",
            message=f"its reconcile fails, also at the end: {record.detail}",
        )
    for text in (*outcome.hot_loops, *map(str, outcome.loops)):
        yield Consequence(kind=ConsequenceKind.LOOP, severity=Severity.DANGER, subject=subject, message=text)
    if not outcome.reached and not outcome.failure and not outcome.hot_loops:
        yield Consequence(
            kind=ConsequenceKind.NO_FIXPOINT,
            severity=Severity.DANGER,
            subject=subject,
            message=f"it still writes after {outcome.seconds:.0f} s of virtual time",
        )
