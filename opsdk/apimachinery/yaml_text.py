"""Objects as YAML text, for files and terminals."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apimachinery.object import AnyObject, to_tree
from opsdk.structured_merge.value import JsonObject


def to_yaml(objects: Sequence[AnyObject | JsonObject]) -> str:
    """Return objects as YAML documents with sorted keys, as kubectl prints them. Equal objects have equal bytes."""
    import yaml  # noqa: PLC0415 - start-up time: operators import this module, and write no YAML

    documents = [
        yaml.safe_dump(
            obj if isinstance(obj, dict) else to_tree(obj),
            sort_keys=True,
            allow_unicode=True,
            width=120,
            default_flow_style=False,
        )
        for obj in objects
    ]
    return "---\n".join(documents)
