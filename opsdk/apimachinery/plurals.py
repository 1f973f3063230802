"""The resource of a kind that does not name one. Pure.

Upstream: sigs.k8s.io/controller-tools/pkg/crd/spec.go, which uses github.com/gobuffalo/flect
"""

from __future__ import annotations

from typing import Any

_VOWELS = "aeiou"


def guess_plural(kind: str) -> str:
    """Return the plural of a kind, as controller-gen and norman guess it. Use discovery for the actual plural.

    >>> [guess_plural(kind) for kind in ("Policy", "Gateway", "Ingress", "Mesh", "Pod", "Endpoints")]
    ['Policies', 'Gateways', 'Ingresses', 'Meshes', 'Pods', 'Endpoints']
    """
    lower = kind.lower()
    if not kind or lower == "endpoints":
        return kind
    if lower.endswith(("s", "x", "ch", "sh")):
        return f"{kind}es"
    if lower.endswith("y") and len(kind) > 1 and lower[-2] not in _VOWELS:
        return f"{kind[:-1]}ies"
    return f"{kind}s"


def plural_of(kind: Any) -> str:
    """Return the resource of a typed class: its ``plural``, or the guessed one."""
    plural: str = getattr(kind, "plural", "")
    return plural or guess_plural(kind.gvk.kind.lower())
