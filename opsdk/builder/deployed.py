"""The field manager and the label of what ``opsdk deploy`` installs. Pure."""

from __future__ import annotations

from typing import Final

from opsdk.structured_merge.value import JsonObject


def field_manager(operator: str) -> str:
    """Return the field manager of the deployments of an operator. Undeploy removes only what it applied.

    >>> field_manager("website")
    'opsdk-deploy/website'
    """
    return f"opsdk-deploy/{operator}"


_DEPLOYED: Final = {"app.kubernetes.io/managed-by": "opsdk"}


def labelled(tree: JsonObject) -> JsonObject:
    """Return a copy of an object with the label of what ``opsdk deploy`` installs.

    An object without any field but its name, such as a ServiceAccount, would have no field manager.

    >>> labelled({"metadata": {"name": "a"}})
    {'metadata': {'name': 'a', 'labels': {'app.kubernetes.io/managed-by': 'opsdk'}}}
    """
    metadata = tree["metadata"]
    return {**tree, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **_DEPLOYED}}}


def is_labelled(tree: JsonObject) -> bool:
    """Whether ``opsdk deploy`` has installed an object."""
    return _DEPLOYED.items() <= (tree["metadata"].get("labels") or {}).items()
