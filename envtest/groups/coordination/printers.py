"""Columns of the group coordination.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, age, kind_printers, name_of, spec_of

PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "coordination.k8s.io/leases": lambda obj, now: [
            name_of(obj),
            spec_of(obj).get("holderIdentity", ""),
            age(obj, now),
        ],
    }
)
"""By ``group/resource``."""
