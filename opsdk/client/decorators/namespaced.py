"""A client that stays in one namespace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.client import Client
from opsdk.client.decorators.wrapper import Wrapper, executor_of
from opsdk.client.operations import Delete, DeleteAllOf, Get, List, Operation, Watch, gvk_of_operation, namespace_of
from opsdk.client.ports import OperationExecutor
from opsdk.errors import UsageError


class Namespaced(Wrapper):
    """Fills in the namespace, refuses any other, and leaves cluster-scoped kinds alone."""

    def __init__(self, inner: OperationExecutor, namespace: str) -> None:
        super().__init__(inner)
        if not namespace:
            raise UsageError("a namespaced client needs a namespace")
        self.namespace = namespace

    async def execute(self, operation: Operation) -> Any:
        """Inside the namespace; a write that fails leaves its object as it was."""
        objects = [o for o in (getattr(operation, "obj", None), getattr(operation, "body", None)) if o is not None]
        before = [(o.metadata, o.metadata.namespace) for o in objects]
        try:
            return await super().execute(operation)
        except BaseException:
            for meta, namespace in before:
                meta.namespace = namespace
            raise

    async def transform(self, operation: Operation) -> Operation:
        """The same inside the namespace."""
        mapping = await self.mapper.mapping_for(gvk_of_operation(operation))
        if not mapping.namespaced:
            return operation
        self._check(operation)
        match operation:
            case Get() | Delete():
                return replace(operation, key=ObjectKey(self.namespace, operation.key.name))
            case List():
                return replace(operation, options=replace(operation.options, namespace=self.namespace))
            case DeleteAllOf():
                return replace(operation, select=replace(operation.select, namespace=self.namespace))
            case _:
                operation.obj.metadata.namespace = self.namespace
                if operation.body is not None:
                    operation.body.metadata.namespace = self.namespace
                return operation

    def transform_watch(self, operation: Watch) -> Watch:
        """The same inside the namespace; requests about cluster-scoped kinds leave it out."""
        self._check(operation)
        return replace(operation, options=replace(operation.options, namespace=self.namespace))

    def _check(self, operation: Operation | Watch) -> None:
        body = getattr(operation, "body", None)
        for namespace in (namespace_of(operation), body.metadata.namespace if body is not None else ""):
            if namespace in ("", self.namespace):
                continue
            what = gvk_of_operation(operation)
            raise UsageError(
                f"namespace {namespace} of the {what.kind} does not match the namespace {self.namespace} on the client"
            )


def namespaced(client: Client | OperationExecutor, namespace: str) -> Client:
    """A client for one namespace: reads, writes and lists of namespaced kinds stay inside it."""
    return Client(Namespaced(executor_of(client), namespace))
