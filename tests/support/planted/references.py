"""Objects that a custom resource names."""

from __future__ import annotations

import hashlib
import json

from opsdk import Context, LabelSelector, ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core import v1 as core
from opsdk.builder.arguments import WatchSpec
from opsdk.errors import NotFoundError
from opsdk.event.request import Request
from planted.kinds import App, Reader, operator_of


def _deployment(app: App, checksum: str = "") -> Deployment:
    labels = {"app": app.metadata.name[:60]}
    env = core.EnvFromSource(secret_ref=core.SecretEnvSource(name=app.spec.secret_ref.name))
    main = core.Container(name="main", image="registry.k8s.io/pause:3.9", env_from=[env])
    annotations = {"checksum": checksum} if checksum else None
    template = core.PodTemplateSpec(
        metadata=ObjectMeta(labels=labels, annotations=annotations or {}), spec=core.PodSpec(containers=[main])
    )
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=app.metadata.name), spec=spec)


def _of_all(operator: Operator, of: type, attribute: str) -> object:
    async def requests(obj: core.Secret | core.ConfigMap) -> list[Request]:
        apps = await operator.client.list(of, namespace=obj.metadata.namespace)
        users = [app for app in apps if getattr(app.spec, attribute).name == obj.metadata.name]
        return [Request(namespace=app.metadata.namespace or "", name=app.metadata.name) for app in users]

    return requests


def _with_watch(of: type, body: object, kind: type, attribute: str, **options: object) -> Operator:
    operator = Operator("planted")
    operator.reconciler(of, watches=[WatchSpec(kind=kind, handler=_of_all(operator, of, attribute))], **options)(body)  # type: ignore[arg-type]
    return operator


# ---------------------------------------------------------------- a Secret is rotated
def rotated_secret() -> Operator:
    """The bug: pods go on with the environment of the former Secret."""

    async def reconcile(app: App, ctx: Context) -> None:
        await ctx.apply(_deployment(app))

    return operator_of(App, reconcile, owns=[Deployment])


def rotated_secret_repaired() -> Operator:
    """The pod template has a checksum of the Secret."""

    async def reconcile(app: App, ctx: Context) -> None:
        secret = await ctx.client.get_or_none(core.Secret, app.spec.secret_ref.name, namespace=app.metadata.namespace)
        content = {key: value.decode() for key, value in (secret.data or {}).items()} if secret is not None else {}
        await ctx.apply(_deployment(app, hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]))

    return _with_watch(App, reconcile, core.Secret, "secret_ref", owns=[Deployment])


# ---------------------------------------------------------------- a ConfigMap comes late
def late_config() -> Operator:
    """The bug: an application without its ConfigMap waits for ever."""

    async def reconcile(app: Reader, ctx: Context) -> None:
        settings = await ctx.client.get_or_none(
            core.ConfigMap, app.spec.config_map_ref.name, namespace=app.metadata.namespace
        )
        async with ctx.status(app) as patch:
            patch.status.ready = settings is not None

    return operator_of(Reader, reconcile)


def late_config_repaired() -> Operator:
    """The ConfigMaps are watched."""

    async def reconcile(app: Reader, ctx: Context) -> None:
        try:
            await ctx.client.get(core.ConfigMap, app.spec.config_map_ref.name, namespace=app.metadata.namespace)
        except NotFoundError:
            ready = False
        else:
            ready = True
        async with ctx.status(app) as patch:
            patch.status.ready = ready

    return _with_watch(Reader, reconcile, core.ConfigMap, "config_map_ref")
