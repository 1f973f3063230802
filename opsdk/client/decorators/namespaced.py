"""A client that is limited to one namespace.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/namespaced_client.go
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.client import Client
from opsdk.client.decorators.wrapper import Wrapper, executor_of
from opsdk.client.operations import Delete, DeleteAllOf, Get, List, Operation, Watch
from opsdk.client.ports import OperationExecutor
from opsdk.errors import UsageError


class Namespaced(Wrapper):
    """Sets the namespace of operations, and rejects any other namespace. Cluster-scoped kinds are not changed."""

    def __init__(self, inner: OperationExecutor, namespace: str) -> None:
        super().__init__(inner)
        if not namespace:
            raise UsageError("a namespaced client needs a namespace")
        self.namespace = namespace

    async def execute(self, operation: Operation) -> Any:
        """Execute inside the namespace. A failed write leaves its object unchanged."""
        objects = [o for o in (getattr(operation, "obj", None), getattr(operation, "body", None)) if o is not None]
        before = [(o.metadata, o.metadata.namespace) for o in objects]
        try:
            return await super().execute(operation)
        except BaseException:
            for meta, namespace in before:
                meta.namespace = namespace
            raise

    async def transform(self, operation: Operation) -> Operation:
        """Return the operation inside the namespace."""
        mapping = await self.mapper.mapping_for(operation.gvk)
        if not mapping.namespaced:
            return operation
        self._check_namespace(operation)
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
        """Return the watch inside the namespace. Requests for cluster-scoped kinds ignore the namespace."""
        self._check_namespace(operation)
        return replace(operation, options=replace(operation.options, namespace=self.namespace))

    def _check_namespace(self, operation: Operation | Watch) -> None:
        body = getattr(operation, "body", None)
        for namespace in (operation.namespace, body.metadata.namespace if body is not None else ""):
            if namespace in ("", self.namespace):
                continue
            what = operation.gvk
            raise UsageError(
                f"namespace {namespace} of the {what.kind} does not match the namespace {self.namespace} on the client"
            )


def namespaced(client: Client | OperationExecutor, namespace: str) -> Client:
    """Return a client whose reads and writes of namespaced kinds stay inside `namespace`."""
    return Client(Namespaced(executor_of(client), namespace))
