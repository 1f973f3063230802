"""The PrometheusRule of an operator.

Upstream: github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1 (PrometheusRule)
"""

from __future__ import annotations

from typing import Final

from opsdk.monitoring.alert import Alert, Feature, RecordingRule
from opsdk.monitoring.conditions import CONDITIONS
from opsdk.monitoring.controller_alerts import CONTROLLER_ALERTS
from opsdk.monitoring.declaration import MonitoredOperator, Objective
from opsdk.monitoring.informer_alerts import INFORMER_ALERTS
from opsdk.monitoring.process_alerts import PROCESS_ALERTS
from opsdk.monitoring.promql import template_text
from opsdk.monitoring.request_alerts import REQUEST_ALERTS
from opsdk.monitoring.service_level import service_level_alerts, service_level_records
from opsdk.structured_merge.value import JsonObject

# A group evaluates its rules in order, so an alert sees the conditions of the same evaluation.
INTERVAL: Final = 15
"""Seconds between two evaluations, and between two scrapes for which the windows of the rules are chosen."""


def all_alerts(objective: Objective) -> tuple[Alert, ...]:
    """Return the alerts of all features."""
    fixed = (*PROCESS_ALERTS, *REQUEST_ALERTS, *INFORMER_ALERTS, *CONTROLLER_ALERTS)
    return (*fixed, *service_level_alerts(objective))


def has_feature(operator: MonitoredOperator, feature: Feature) -> bool:
    """Whether an operator has a feature."""
    match feature:
        case Feature.CONTROLLERS:
            return bool(operator.controllers) or operator.fleet
        case Feature.LEADER_ELECTION:
            return operator.leader_election
        case Feature.WEBHOOKS:
            return operator.webhooks
        case Feature.FLEET:
            return operator.fleet
        case Feature.ALWAYS:
            return True


def alerts_of(operator: MonitoredOperator) -> tuple[Alert, ...]:
    """Return the alerts of an operator: those of its features.

    >>> [alert.name for alert in alerts_of(MonitoredOperator(name="hooks", webhooks=True)) if "Webhook" in alert.name]
    ['OpsdkWebhooksFail']
    """
    return tuple(alert for alert in all_alerts(operator.objective) if has_feature(operator, alert.feature))


def records_of(operator: MonitoredOperator) -> tuple[RecordingRule, ...]:
    """Return the recording rules of an operator, in the order of their evaluation."""
    records = (*CONDITIONS, *service_level_records(operator.objective))
    return tuple(record for record in records if has_feature(operator, record.feature))


def prometheus_rule(operator: MonitoredOperator) -> JsonObject:
    """Return the PrometheusRule: recording rules first, then alerts."""
    metadata: JsonObject = {"name": operator.object_name, "labels": {"app.kubernetes.io/name": operator.object_name}}
    if operator.namespace:
        metadata["namespace"] = operator.namespace
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": {"groups": rule_groups(operator)},
    }


def rule_groups(operator: MonitoredOperator) -> list[JsonObject]:
    """Return the groups of the rules, as a file of rules of Prometheus has them."""
    records = [_record(operator, record) for record in records_of(operator)]
    alerts = [_rule(operator, alert) for alert in alerts_of(operator)]
    name = f"{operator.object_name}.opsdk"
    return [{"name": name, "interval": f"{INTERVAL}s", "rules": [*records, *alerts]}]


def _record(operator: MonitoredOperator, record: RecordingRule) -> JsonObject:
    # Labels of the operator where the query aggregates them away: two operators have one series each.
    return {"record": record.record, "expr": operator.query(record.query)}


def _rule(operator: MonitoredOperator, alert: Alert) -> JsonObject:
    rule: JsonObject = {"alert": alert.name, "expr": operator.query(alert.query)}
    if alert.hold:
        rule["for"] = f"{alert.hold}s"
    name = template_text(operator.name)
    return {
        **rule,
        "labels": {"severity": alert.severity.value, "operator": name},
        "annotations": {
            "summary": alert.summary,
            "description": f"{name}: {alert.description}",
            "runbook_url": f"{template_text(operator.runbooks).rstrip('/')}/{alert.name}.md",
        },
    }
