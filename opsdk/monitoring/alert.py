"""The value of one alert."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple

import msgspec


class AlertSeverity(StrEnum):
    """How soon a person is needed."""

    CRITICAL = "critical"
    """Now: changes of specs have no effect."""
    WARNING = "warning"
    """On the same day."""


class Feature(Enum):
    """A part of an operator that an alert or a panel is about."""

    ALWAYS = "every operator"
    CONTROLLERS = "controllers"
    LEADER_ELECTION = "leader election"
    WEBHOOKS = "webhooks"
    FLEET = "a fleet"


class RecordingRule(NamedTuple):
    """A recording rule: a rate, or a condition that has a value while it holds.

    Attributes:
        record: the name of the series.
        query: with `SELECTOR`.
        feature: of the operator.
    """

    record: str
    query: str
    feature: Feature = Feature.ALWAYS


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert with its runbook.

    Attributes:
        name: in CamelCase.
        query: with `SELECTOR`; the alert fires when it has a value for `hold`.
        hold: seconds for which the query has a value before the alert fires.
        severity: see `AlertSeverity`.
        summary: one sentence, a template of Prometheus.
        description: one or two sentences, a template.
        meaning: of the alert, for its runbook: Markdown.
        look: how to see more, in commands: Markdown.
        causes: usual ones, the most frequent first.
        actions: what to do, in order.
        feature: an operator without it does not have the alert.
    """

    name: str
    query: str
    hold: int
    severity: AlertSeverity
    summary: str
    description: str
    meaning: str
    look: tuple[str, ...]
    causes: tuple[str, ...]
    actions: tuple[str, ...]
    feature: Feature = Feature.ALWAYS
