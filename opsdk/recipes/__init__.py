"""Common steps of operators: owner references, finalizers, conditions, create-or-update, retries, storage migration.

They hold no state of the cluster; controllers and queues belong elsewhere.

A name is imported when it is first used: a controller needs the finalizers, and most need no storage migration. Type
checkers read ``__init__.pyi``.
"""

from importlib import import_module

_HOMES = {
    "opsdk.recipes.conditions": ("get_condition", "is_condition_true", "set_condition"),
    "opsdk.recipes.create_or_update": ("OperationResult", "create_or_patch", "create_or_update"),
    "opsdk.recipes.finalizers": ("add_finalizer", "contains_finalizer", "is_deleting", "remove_finalizer"),
    "opsdk.recipes.owner_references": (
        "controller_of",
        "has_owner_reference",
        "is_controlled_by",
        "remove_owner_reference",
        "set_controller_reference",
        "set_owner_reference",
    ),
    "opsdk.recipes.retry": ("retry_on_conflict",),
    "opsdk.recipes.storage_migration": (
        "MigrationOptions",
        "MigrationProgress",
        "StorageMigrator",
        "migrate_storage_version",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "MigrationOptions",
    "MigrationProgress",
    "OperationResult",
    "StorageMigrator",
    "add_finalizer",
    "contains_finalizer",
    "controller_of",
    "create_or_patch",
    "create_or_update",
    "get_condition",
    "has_owner_reference",
    "is_condition_true",
    "is_controlled_by",
    "is_deleting",
    "migrate_storage_version",
    "remove_finalizer",
    "remove_owner_reference",
    "retry_on_conflict",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
