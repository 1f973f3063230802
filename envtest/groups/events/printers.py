"""Columns of the group events.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, kind_printers
from envtest.groups.core.printers import event

PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "events.k8s.io/events": event,
    }
)
"""By ``group/resource``."""
