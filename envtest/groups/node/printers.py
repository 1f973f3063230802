"""Columns of the group node.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, age, kind_printers, name_of

# ------------------------------------------------------------------ runtime classes


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "node.k8s.io/runtimeclasses": lambda obj, now: [name_of(obj), obj.get("handler", ""), age(obj, now)],
    }
)
"""By ``group/resource``."""
