"""The reconciler: an instance of the service for each Database."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from database.api import FINALIZER, Database
from database.service import DatabaseService, Instance, Order, RejectedError, ServiceError
from opsdk import Context, Operator, OperatorOptions, Request, Result, references
from opsdk.api.core.v1 import Secret
from opsdk.event.timers import PollSource
from opsdk.rbac.rules import patches_status, records_events

POLL_INTERVAL, PROGRESS_INTERVAL, RESYNC_INTERVAL = 30.0, 5.0, 600.0
"""Seconds between two looks at all instances, which show what the service changes by itself; at an instance that the
service is working on; and at an instance that is available, because a poll misses what comes and goes between two."""


@dataclass
class DatabaseReconciler:
    """Reconciles the instances of the service with their Databases."""

    service: DatabaseService

    async def reconcile(self, database: Database, ctx: Context) -> Result:
        """Create or change the instance if it differs, and report its state."""
        name, namespace = database.spec.credentials.name, database.metadata.namespace
        secret = await ctx.client.get_or_none(Secret, name, namespace=namespace)
        if secret is None or not {"username", "password"} <= secret.data.keys():
            text = f"the Secret {name} with the keys username and password does not exist"
            return await self.report(database, ctx, "False", "CredentialsMissing", text)
        try:
            instance = await self.ensure(database, secret)
        except RejectedError as error:
            return await self.report(database, ctx, "False", "Rejected", str(error))
        except ServiceError as error:
            await self.report(database, ctx, "Unknown", "ServiceUnavailable", str(error))
            raise
        available = instance.state == "available"
        async with ctx.status(database) as patch:
            patch.status.endpoint = instance.endpoint
            patch.status.replicas = instance.replicas if available else patch.status.replicas
            patch.status.secret_version = secret.metadata.resource_version
            text = f"the instance is {instance.state}"
            if patch.set_condition("Ready", available, "Available" if available else "InProgress", text) and available:
                ctx.event("Available", f"serves at {instance.endpoint}")
        return Result(requeue_after=RESYNC_INTERVAL if available else PROGRESS_INTERVAL)

    async def ensure(self, database: Database, secret: Secret) -> Instance:
        """Return the instance; create or change it first if it or the credentials differ."""
        spec, key, owner = database.spec, database.metadata.uid, str(Request.of(database))
        desired = Instance(
            owner=owner, engine=spec.engine, version=spec.version, size_gb=spec.size_gb, replicas=spec.replicas
        )
        existing = await self.service.find(key)
        rotated = database.status is None or database.status.secret_version != secret.metadata.resource_version
        if existing is not None and not rotated and replace(existing, state="creating", endpoint="") == desired:
            return existing
        username, password = (secret.data[field].decode() for field in ("username", "password"))
        return await self.service.put(key, Order(instance=desired, username=username, password=password))

    async def report(self, database: Database, ctx: Context, ready: str, reason: str, text: str) -> Result:
        """Write the condition Ready, and wait for a change."""
        async with ctx.status(database) as patch:
            patch.set_condition("Ready", ready, reason, text)
        return Result()

    async def delete_instance(self, database: Database, _ctx: Context) -> Result | None:
        """Delete the instance of a Database that is being deleted; the finalizer stays until it is gone."""
        gone = await self.service.delete(database.metadata.uid)
        return None if gone else Result(requeue_after=PROGRESS_INTERVAL)

    async def poll(self) -> dict[Request, list[Instance]]:
        """Return the instances by Database. A recreated Database may also have the instance of its predecessor."""
        states: dict[Request, list[Instance]] = {}
        for instance in (await self.service.instances()).values():
            namespace, _, name = instance.owner.partition("/")
            states.setdefault(Request(namespace, name), []).append(instance)
        return states


def make_operator(service: DatabaseService, options: OperatorOptions | None = None) -> Operator:
    """Return the operator with its reconciler."""
    operator, reconciler = Operator("database-operator", options), DatabaseReconciler(service)

    # The cache has the metadata of all Secrets, and the passwords of those that a Database refers to.
    secrets = references(Secret, by=lambda database: database.spec.credentials.name)
    poll = PollSource(reconciler.poll, POLL_INTERVAL, name="service")
    finalizers = {FINALIZER: reconciler.delete_instance}
    rbac = [patches_status(Database), records_events()]
    declare = operator.reconciler(Database, watches=[secrets], sources=[poll], finalizers=finalizers, rbac=rbac)
    declare(reconciler.reconcile)
    return operator
