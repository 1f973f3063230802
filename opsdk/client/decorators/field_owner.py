"""Clients that set the field owner or the field validation of every write.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/fieldowner.go, fieldvalidation.go
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from opsdk.client.client import Client
from opsdk.client.decorators.wrapper import Wrapper, executor_of, with_write_options
from opsdk.client.operations import Create, ObjectWrite, Operation, PatchObject, Update
from opsdk.client.options import FieldValidation
from opsdk.client.ports import OperationExecutor


class FieldOwner(Wrapper):
    """Sets the field owner of operations that have none."""

    def __init__(self, inner: OperationExecutor, owner: str) -> None:
        super().__init__(inner)
        self.owner = owner

    # Not async, as most writes pass through it: the next executor has the coroutine.
    def execute(self, operation: Operation) -> Coroutine[Any, Any, Any]:
        """Execute the operation with a field owner."""
        if isinstance(operation, ObjectWrite) and not operation.options.field_owner:
            operation = with_write_options(operation, field_owner=self.owner)
        return self.inner.execute(operation)


class FieldValidating(Wrapper):
    """Sets the field validation of operations that have none. Apply is always strict."""

    def __init__(self, inner: OperationExecutor, validation: FieldValidation) -> None:
        super().__init__(inner)
        self.validation = validation

    async def transform(self, operation: Operation) -> Operation:
        """Return the operation with a field validation."""
        if isinstance(operation, Create | Update | PatchObject) and operation.options.field_validation is None:
            return with_write_options(operation, field_validation=self.validation)
        return operation


def field_owner(client: Client | OperationExecutor, owner: str) -> Client:
    """Return a client whose writes use the field owner `owner`. A call's own ``field_owner`` takes precedence."""
    return Client(FieldOwner(executor_of(client), owner))


def field_validation(client: Client | OperationExecutor, validation: FieldValidation) -> Client:
    """Return a client whose writes use this field validation. A call's own ``field_validation`` takes precedence."""
    return Client(FieldValidating(executor_of(client), validation))
