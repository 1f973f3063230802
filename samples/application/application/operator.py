"""The reconciler: the parts of an Application, each after those that it needs."""

from __future__ import annotations

from application.api import Application
from application.children import database, migration, servers, service
from application.dns import DnsClient, DnsRecord, is_active
from opsdk import Context, ControllerOptions, Operator, OperatorOptions
from opsdk.api.apps.v1 import Deployment, StatefulSet
from opsdk.api.batch.v1 import Job
from opsdk.api.core.v1 import Service
from opsdk.children.ordering import Child
from opsdk.rbac.rules import applies, deletes, records_events

DATABASE_PORT, WEB_PORT = 5432, 80


def make_operator(dns: DnsClient, options: OperatorOptions | None = None) -> Operator:
    """Return the operator with its reconciler."""
    operator, record = Operator("application-operator", options), DnsRecord(dns)

    @operator.reconciler(
        Application,
        owns=[StatefulSet, Job, Deployment, Service, record],
        rbac=[applies(StatefulSet, Job, Deployment, Service), deletes(Job), records_events()],
        options=ControllerOptions(ready_condition="Ready", delete_in_reverse=True),
    )
    async def reconcile(app: Application, ctx: Context) -> None:
        db, migrate, web = database(app), migration(app), servers(app)
        db_service, web_service = service(app, "db", DATABASE_PORT, headless=True), service(app, "web", WEB_PORT)
        await ctx.apply_all(
            [
                db_service,
                Child(db, after=[db_service], ready=True),
                Child(migrate, after=[db], ready=True),
                Child(web, after=[migrate], ready=True),
                web_service,
                Child(record, after=[web, web_service], ready=is_active),
            ],
            prune=[Job],
        )
        async with ctx.status(app) as patch:
            if patch.status.image != app.spec.image:
                ctx.event("Serves", f"{app.spec.host} serves {app.spec.image}")
            patch.status.image = app.spec.image

    return operator
