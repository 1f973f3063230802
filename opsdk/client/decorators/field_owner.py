"""Clients that fill in the field owner or the field validation of every write."""

from __future__ import annotations

from opsdk.client.client import Client
from opsdk.client.decorators.wrapper import Wrapper, executor_of, with_write_options
from opsdk.client.operations import Apply, Create, Operation, PatchObject, Update
from opsdk.client.options import FieldValidation
from opsdk.client.ports import OperationExecutor


class FieldOwner(Wrapper):
    """Names the field owner where the call names none."""

    def __init__(self, inner: OperationExecutor, owner: str) -> None:
        super().__init__(inner)
        self.owner = owner

    async def transform(self, operation: Operation) -> Operation:
        """The same with an owner."""
        if isinstance(operation, Create | Update | PatchObject | Apply) and not operation.options.field_owner:
            return with_write_options(operation, field_owner=self.owner)
        return operation


class FieldValidating(Wrapper):
    """Says how strict the server shall be where the call does not. Apply is always strict."""

    def __init__(self, inner: OperationExecutor, validation: FieldValidation) -> None:
        super().__init__(inner)
        self.validation = validation

    async def transform(self, operation: Operation) -> Operation:
        """The same with a validation."""
        if isinstance(operation, Create | Update | PatchObject) and operation.options.field_validation is None:
            return with_write_options(operation, field_validation=self.validation)
        return operation


def field_owner(client: Client | OperationExecutor, owner: str) -> Client:
    """A client whose writes are done in the name of `owner`; a call's own ``field_owner`` wins."""
    return Client(FieldOwner(executor_of(client), owner))


def field_validation(client: Client | OperationExecutor, validation: FieldValidation) -> Client:
    """A client whose writes are validated so; a call's own ``field_validation`` wins."""
    return Client(FieldValidating(executor_of(client), validation))
