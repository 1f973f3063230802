"""``DefaultTolerationSeconds``, ``TaintNodesByCondition``, and the merge of tolerations.

Upstream: plugin/pkg/admission/defaulttolerationseconds, plugin/pkg/admission/nodetaint (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.structured_merge.value import JsonObject

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_PATIENCE: Final = 300


class DefaultTolerationSeconds(Plugin):
    """Adds tolerations of 300 s for not-ready and unreachable nodes."""

    resources = ("pods",)

    async def mutate(self, attributes: Attributes) -> None:
        """Add the default tolerations to new and changed pods."""
        if not writes(attributes, "pods", "CREATE", "UPDATE") or attributes.obj is None:
            return
        spec = attributes.obj.get("spec") or {}
        tolerations = spec.get("tolerations") or []
        missing = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE}
            for key in (_NOT_READY, _UNREACHABLE)
            if not any(
                ((t.get("effect") or "NoExecute") == "NoExecute" and (t.get("key") or key) == key) for t in tolerations
            )
        ]
        if missing:
            attributes.obj = {**attributes.obj, "spec": {**spec, "tolerations": [*tolerations, *missing]}}


class TaintNodesByCondition(Plugin):
    """Taints new nodes, so that no pods are scheduled before the node is ready."""

    resources = ("nodes",)

    async def mutate(self, attributes: Attributes) -> None:
        """Add the not-ready taint to new nodes."""
        if not writes(attributes, "nodes", "CREATE") or attributes.obj is None:
            return
        spec = attributes.obj.get("spec") or {}
        taints = spec.get("taints") or []
        if not any(t.get("key") == _NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            taint = {"key": _NOT_READY, "effect": "NoSchedule"}
            attributes.obj = {**attributes.obj, "spec": {**spec, "taints": [*taints, taint]}}


# ------------------------------------------------------------------ merging
def merged(first: Sequence[JsonObject], second: Sequence[JsonObject]) -> list[JsonObject]:
    """Return both lists without the tolerations that others cover."""
    tolerations, result = [*first, *second], list[JsonObject]()
    for index, toleration in enumerate(tolerations):
        later = (t for t in tolerations[index + 1 :] if t != toleration)
        if not any(tolerates_all_of(t, toleration) for t in (*result, *later)):
            result.append(toleration)
    return result


def tolerates_all_of(wide: JsonObject, narrow: JsonObject) -> bool:
    """Whether `wide` tolerates everything that `narrow` tolerates."""
    if wide == narrow:
        return True
    keys = _text_of(wide, "key") == _text_of(narrow, "key") or (
        not _text_of(wide, "key") and _text_of(wide, "operator") == "Exists"
    )
    effects = not _text_of(wide, "effect") or _text_of(wide, "effect") == _text_of(narrow, "effect")
    if not keys or not effects or not _as_long(wide, narrow):
        return False
    if _text_of(wide, "operator") in ("", "Equal"):
        same = _text_of(wide, "operator") == _text_of(narrow, "operator")
        return same and _text_of(wide, "value") == _text_of(narrow, "value")
    return _text_of(wide, "operator") == "Exists"


def _as_long(wide: JsonObject, narrow: JsonObject) -> bool:
    most, seconds = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if _text_of(wide, "effect") != "NoExecute" or most is None:
        return True
    return seconds is not None and seconds <= most


def _text_of(toleration: JsonObject, key: str) -> str:
    return str(toleration.get(key) or "")
