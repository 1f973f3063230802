"""A client whose writes are dry runs.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/dryrun.go
"""

from __future__ import annotations

from msgspec.structs import replace

from opsdk.client.client import Client
from opsdk.client.decorators.wrapper import Wrapper, executor_of, with_write_options
from opsdk.client.operations import Delete, DeleteAllOf, Operation
from opsdk.client.ports import OperationExecutor


class DryRun(Wrapper):
    """Marks every write as a dry run: the server runs admission and validation, and stores nothing."""

    async def transform(self, operation: Operation) -> Operation:
        """Return the operation as a dry run."""
        if isinstance(operation, Delete | DeleteAllOf):
            return replace(operation, options=replace(operation.options, dry_run=True))
        return with_write_options(operation, dry_run=True)


def dry_run(client: Client | OperationExecutor) -> Client:
    """Return a client whose writes, subresources included, are dry runs."""
    return Client(DryRun(executor_of(client)))
