"""Strategies of the group events.k8s.io, whose events are stored as core events.

Upstream: pkg/registry/core/event (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.strategy import StrategyFactory
from envtest.groups.core.strategy.event import EventStrategy

STRATEGIES: Mapping[str, StrategyFactory] = {
    "events.k8s.io/events": EventStrategy,
}
"""By ``group/resource``."""
