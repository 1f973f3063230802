"""Columns of the group events.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import kind_printers
from envtest.groups.core.printers import event
from opsdk.apiserver.resources import Printer

PRINTERS: Mapping[str, Printer] = kind_printers(
    {
        "events.k8s.io/events": event,
    }
)
"""By ``group/resource``."""
