"""Fields of a new pod that the server derives from other fields. Changes objects in place.

Upstream: pkg/registry/core/pod/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envtest.groups.common.pod_spec import containers
from envtest.groups.core.validation.affinity import POD_AFFINITIES, PREFERRED, REQUIRED
from envtest.groups.core.validation.pod_annotations import APPARMOR
from opsdk.structured_merge.value import JsonObject

_OPERATORS: Final = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
_LOCAL: Final = "localhost/"
_MOST_LOCAL: Final = 4095


# ------------------------------------------------------------------ matchLabelKeys
def merge_label_keys(obj: JsonObject) -> None:
    """Merge ``matchLabelKeys`` into label selectors, with the values of the pod's labels."""
    spec, labels = obj["spec"], obj["metadata"].get("labels") or {}
    for kind in POD_AFFINITIES:
        terms = (spec.get("affinity") or {}).get(kind) or {}
        for term in terms.get(REQUIRED) or ():
            _merge(term, labels)
        for weighted in terms.get(PREFERRED) or ():
            _merge(weighted.get("podAffinityTerm") or {}, labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, labels)


def _merge(term: JsonObject, labels: JsonObject) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    requirements = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in _OPERATORS
        for key in term.get(field) or ()
        if key in labels
    ]
    if requirements:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *requirements]


# ------------------------------------------------------------------ seccomp and AppArmor annotations
def sync_profiles(obj: JsonObject) -> Iterator[str]:
    """Copy seccomp and AppArmor annotations into fields; yield warnings."""
    spec, notes = obj["spec"], obj["metadata"].get("annotations") or {}
    if (spec.get("os") or {}).get("name") == "windows":
        return
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container in containers(spec):
        key = f"{APPARMOR}{container.get('name', '')}"
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        if key in notes and own is None and _take_over(container, notes[key], whole):
            yield f'metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _take_over(container: JsonObject, text: str, whole: JsonObject | None) -> bool:
    """Copy a deprecated annotation to its field. Returns whether the user gets a warning."""
    profile = _profile(text)
    if profile is None:
        return True
    if profile == whole:
        return False
    if container.get("securityContext") is None:
        container["securityContext"] = {}
    container["securityContext"]["appArmorProfile"] = profile
    return True


def _profile(text: str) -> JsonObject | None:
    match text:
        case "unconfined":
            return {"type": "Unconfined"}
        case "runtime/default":
            return {"type": "RuntimeDefault"}
    name = text.removeprefix(_LOCAL)
    fine = name and name == name.strip() and len(name) <= _MOST_LOCAL
    return {"type": "Localhost", "localhostProfile": name} if text.startswith(_LOCAL) and fine else None
