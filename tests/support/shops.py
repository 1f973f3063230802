"""A service outside Kubernetes, and an operator of shops that own its resources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from msgspec import field

from opsdk import Condition, Context, ControllerOptions, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.children.ordering import Child
from opsdk.controller.external import ExternalContext, ExternalRef, ExternalResource, ExternalStatus


class ShopSpec(Model):
    """A shop's size."""

    size: int = 1


class ShopStatus(Model):
    """A shop's state, with the ids of its resources."""

    bucket: ExternalStatus = field(default_factory=ExternalStatus)
    domain: ExternalStatus = field(default_factory=ExternalStatus)
    conditions: list[Condition] = field(default_factory=list)


class Shop(Object[ShopSpec, ShopStatus]):
    """A kind with external resources."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Shop")


def shop(name: str = "a") -> Shop:
    """Return a shop."""
    return Shop(metadata=ObjectMeta(name=name, namespace="default"), spec=ShopSpec())


class Item(msgspec.Struct):
    """A resource of the service."""

    id: str
    token: str
    size: int = 0
    up_at: float = 0.0
    gone_at: float = 0.0

    @property
    def up(self) -> bool:
        """Whether it works."""
        return asyncio.get_running_loop().time() >= self.up_at


class Service:
    """A service that knows nothing of Kubernetes. Its resources take some seconds to come and to go."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.created = 0
        self.calls: list[str] = []
        self.twice: list[str] = []
        self.too_early: list[str] = []
        self.deletion_seconds = 5.0
        self.context: ExternalContext = Context(request=None)
        self.step: Callable[[str], Awaitable[None]] = self._step

    async def _step(self, call: str) -> None:
        self.calls.append(call)

    def assert_new(self, ref: ExternalRef) -> None:
        """Check that a resource is not created twice."""
        now = asyncio.get_running_loop().time()
        self.twice += [i.token for i in self.items.values() if i.token == ref.token and not 0 < i.gone_at <= now]

    def find(self, ref: ExternalRef) -> Item | None:
        """Return a resource by its id or token, unless it is gone."""
        now = asyncio.get_running_loop().time()
        self.items = {key: item for key, item in self.items.items() if not item.gone_at or item.gone_at > now}
        if ref.id:
            return self.items.get(ref.id)
        return next((item for item in self.items.values() if item.token == ref.token), None)


class External(ExternalResource[Shop, Item]):
    """A resource of the service."""

    poll = timedelta(seconds=10)

    def __init__(self, service: Service, name: str) -> None:
        self.service = service
        self.name = name

    async def observe(self, obj: Shop, ref: ExternalRef) -> Item | None:
        self.service.context = ref.ctx
        await self.service.step(f"observe {self.name}")
        return self.service.find(ref)

    async def create(self, obj: Shop, ref: ExternalRef) -> Item:
        self.service.context = ref.ctx
        await self.service.step(f"create {self.name}")
        self.service.created += 1
        now = asyncio.get_running_loop().time()
        self.service.assert_new(ref)
        item = Item(f"{self.name}-{self.service.created}", ref.token, obj.spec.size, up_at=now + 15)
        self.service.items[item.id] = item
        await self.service.step(f"created {self.name}")
        return item

    async def update(self, obj: Shop, ref: ExternalRef, observed: Item) -> Item | None:
        self.service.context = ref.ctx
        if observed.size == obj.spec.size:
            return None
        await self.service.step(f"update {self.name}")
        observed.size = obj.spec.size
        return observed

    async def delete(self, obj: Shop, ref: ExternalRef) -> None:
        self.service.context = ref.ctx
        await self.service.step(f"delete {self.name}")
        owner = ref.token.removesuffix(self.name)
        domain = self.service.find(ExternalRef(id="", token=f"{owner}domain"))
        if self.name == "bucket" and domain is not None:
            self.service.too_early.append(ref.id)
        if (item := self.service.find(ref)) is not None and not item.gone_at:
            item.gone_at = asyncio.get_running_loop().time() + self.service.deletion_seconds
        await self.service.step(f"deleted {self.name}")


def is_up(item: Item) -> bool:
    """Return whether a resource works."""
    return item.up


OPTIONS = ControllerOptions(delete_in_reverse=True, ready_condition="Ready")


def make_operator(service: Service, *, poll: float = 10) -> Operator:
    """An operator with a ConfigMap, a bucket after it, a domain after the bucket, and another ConfigMap at the end."""
    operator = Operator("shops")
    bucket, domain = External(service, "bucket"), External(service, "domain")
    bucket.poll = domain.poll = timedelta(seconds=poll)

    @operator.reconciler(Shop, owns=[ConfigMap, bucket, domain], options=OPTIONS)
    async def reconcile(obj: Shop, ctx: Context) -> None:
        first = await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{obj.metadata.name}-first")))
        item = await ctx.apply(bucket, ready=is_up, after=[first])
        last = ConfigMap(metadata=ObjectMeta(name=f"{obj.metadata.name}-last"), data={"bucket": item.id})
        await ctx.apply_all([Child(domain, ready=is_up, after=[bucket]), Child(last, after=[domain])])

    return operator
