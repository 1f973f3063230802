"""Old names of public functions and classes: they work for one minor version, with a warning that has the new name."""

from __future__ import annotations

from importlib import import_module  # noqa: TID251 - the table below has the modules of all new names

from opsdk.base.deprecation import warn_deprecated

MOVED = {
    "opsdk.Child": "opsdk.children.ordering.Child",
    "opsdk.Config": "opsdk.RestConfig",
    "opsdk.GroupVersion": "opsdk.apimachinery.gvk.GroupVersion",
    "opsdk.JsonObject": "opsdk.structured_merge.value.JsonObject",
    "opsdk.OwnsSpec": "opsdk.builder.arguments.OwnsSpec",
    "opsdk.Selector": "opsdk.LabelRequirements",
    "opsdk.TypedObject": "opsdk.apimachinery.object.TypedObject",
    "opsdk.WatchSpec": "opsdk.builder.arguments.WatchSpec",
    "opsdk.deep_copy": "opsdk.apimachinery.object.deep_copy",
    "opsdk.default_scheme": "opsdk.client.scheme.default_scheme",
    "opsdk.metadata_only": "opsdk.apimachinery.kinds.metadata_only",
    "opsdk.referenced": "opsdk.references",
    "opsdk.strip_managed_fields": "opsdk.cache.options.strip_managed_fields",
    "opsdk.to_tree": "opsdk.apimachinery.object.to_dict",
    "opsdk.unstructured": "opsdk.apimachinery.kinds.unstructured_kind",
    "opsdk.webhook.authentication.errored": "opsdk.webhook.authentication.review_failed",
}
"""New names by old names."""


def resolve(module: str, name: str) -> object:
    """Return what an old name of a module stands for, and warn the caller of the module's ``__getattr__``.

    Raises `AttributeError` for an unknown name.
    """
    new_name = MOVED.get(f"{module}.{name}")
    if new_name is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_deprecated(f"{module}.{name}", removed_in="0.3.0", instead=f"use {new_name}", callers=2)
    home, _, new = new_name.rpartition(".")
    return getattr(import_module(home), new)
