"""The service level: the share of changes of specs that are observed in time, and how fast its error budget burns.

Upstream: The Site Reliability Workbook, chapter 5: multi-window, multi-burn-rate alerts
"""

from __future__ import annotations

from typing import Final

from opsdk.monitoring.alert import Alert, AlertSeverity, Feature, RecordingRule
from opsdk.monitoring.declaration import Objective

_WINDOWS: Final = ("5m", "30m", "1h", "6h")
# Changes in an hour below which a share says nothing.
_FEW_CHANGES: Final = 10
_METRIC: Final = "opsdk_controller_observed_generation_seconds"


def late_share(window: str) -> str:
    """Return the name of the recorded share of late changes.

    >>> late_share("5m")
    'opsdk:spec_changes_late:share5m'
    """
    return f"opsdk:spec_changes_late:share{window}"


def service_level_records(objective: Objective) -> tuple[RecordingRule, ...]:
    """Return the recording rules of the share of late changes, for each window."""
    return tuple(
        RecordingRule(
            late_share(window),
            f"""
            1 - sum by (namespace, job) (rate({_METRIC}_bucket{{@,le="{objective.bucket}"}}[{window}]))
            / sum by (namespace, job) (rate({_METRIC}_count{{@}}[{window}]))
            """,
            Feature.CONTROLLERS,
        )
        for window in _WINDOWS
    )


def service_level_alerts(objective: Objective) -> tuple[Alert, ...]:
    """Return the alerts on the error budget of 30 days: 2 % of it burned in an hour, and 5 % in six hours."""
    budget = round(1 - objective.share, 9)
    target = f"{objective.share * 100:g} % of the changes of specs are observed within {objective.seconds:g} seconds"
    causes = (
        "A fault that has an alert of its own: look at those first.",
        "Reconciles became slower since a release.",
        "The objective is stricter than the operator's usual work.",
    )
    actions = ("Follow the runbooks of the other alerts that fire.", "Choose an objective that the operator reaches.")
    look = (
        "the row *Service level* of the dashboard: since when, and which controller",
        "`opsdk top`: queues and workers",
        "`opsdk why --controller CONTROLLER`: how long reconciles take, and why they ran",
    )
    few = f"and on (namespace, job) sum by (namespace, job) (increase({_METRIC}_count{{@}}[1h])) > {_FEW_CHANGES}"
    meaning = f"The objective is: {target}. At the present rate of late changes, the error budget of 30 days is gone "
    return (
        Alert(
            name="OpsdkErrorBudgetBurnsFast",
            query=f"""
            ({late_share("1h")}{{@}} > {14.4 * budget:.6g} and {late_share("5m")}{{@}} > {14.4 * budget:.6g}) {few}
            """,
            hold=120,
            severity=AlertSeverity.CRITICAL,
            summary="Changes of specs are observed too late.",
            description="{{ $value | humanizePercentage }} of the changes of the last hour were late. "
            f"The objective: {target}.",
            meaning=meaning + "within two days.",
            look=look,
            causes=causes,
            actions=actions,
            feature=Feature.CONTROLLERS,
        ),
        Alert(
            name="OpsdkErrorBudgetBurnsSlowly",
            query=f"""
            ({late_share("6h")}{{@}} > {6 * budget:.6g} and {late_share("30m")}{{@}} > {6 * budget:.6g}) {few}
            """,
            hold=900,
            severity=AlertSeverity.WARNING,
            summary="Changes of specs are often observed too late.",
            description="{{ $value | humanizePercentage }} of the changes of the last six hours were late. "
            f"The objective: {target}.",
            meaning=meaning + "within five days.",
            look=look,
            causes=causes,
            actions=actions,
            feature=Feature.CONTROLLERS,
        ),
    )
