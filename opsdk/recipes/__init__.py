"""Common steps of operators: owner references, finalizers, conditions, create-or-update, retries, storage migration.

They are stateless; controllers and queues are in other packages.
"""

from opsdk.recipes.conditions import get_condition, is_condition_true, set_condition
from opsdk.recipes.create_or_update import OperationResult, create_or_patch, create_or_update
from opsdk.recipes.definitions import create_crds
from opsdk.recipes.finalizers import add_finalizer, contains_finalizer, is_deleting, remove_finalizer
from opsdk.recipes.names import safe_concat_name
from opsdk.recipes.owner_references import (
    controller_of,
    has_owner_reference,
    is_controlled_by,
    remove_owner_reference,
    set_controller_reference,
    set_owner_reference,
)
from opsdk.recipes.retry import retry_on_conflict
from opsdk.recipes.storage_migration import (
    MigrationOptions,
    MigrationProgress,
    StorageMigrator,
    migrate_storage_version,
)
from opsdk.recipes.summaries import Summary, SummaryState, summary

__all__ = [
    "MigrationOptions",
    "MigrationProgress",
    "OperationResult",
    "StorageMigrator",
    "Summary",
    "SummaryState",
    "add_finalizer",
    "contains_finalizer",
    "controller_of",
    "create_crds",
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
    "safe_concat_name",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
    "summary",
]
