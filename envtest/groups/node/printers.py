"""Columns of the group node.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import age, kind_printers, name_of
from opsdk.apiserver.resources import Printer

# ------------------------------------------------------------------ runtime classes


PRINTERS: Mapping[str, Printer] = kind_printers(
    {
        "node.k8s.io/runtimeclasses": lambda obj, now: [name_of(obj), obj.get("handler", ""), age(obj, now)],
    }
)
"""By ``group/resource``."""
