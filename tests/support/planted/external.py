"""Records in an external system."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

from opsdk import Context, Operator
from opsdk.event.request import Request
from opsdk.rbac.rules import patches_status
from opsdk.recipes.finalizers import add_finalizer, is_deleting, remove_finalizer
from opsdk.testing.doubles import ClusterSnapshot, Doubles
from planted.kinds import Body, Site, operator_of


class AbsentError(Exception):
    """There is no such record."""


class Records:
    """The double of a service that chooses the names of its records."""

    def __init__(self) -> None:
        self.records: dict[str, str] = {}
        self.calls: list[str] = []
        self._numbers = count(1)

    async def create(self, text: str) -> str:
        """Create a record, and return its name."""
        name = f"record-{next(self._numbers)}"
        self.calls.append(f"create {name}")
        self.records[name] = text
        return name

    async def find(self, text: str) -> str:
        """Return the name of a record with a text; empty if there is none."""
        return next((name for name, each in self.records.items() if each == text), "")

    async def delete(self, name: str) -> None:
        """Delete a record. Raises `AbsentError`."""
        self.calls.append(f"delete {name}")
        if name not in self.records:
            raise AbsentError(name)
        del self.records[name]


def _doubles(make: object) -> Doubles[Records]:
    records = Records()
    return Doubles(operator=lambda: make(records), systems=records)  # type: ignore[operator]


def _operator(reconcile: Body, finalize: Body | None) -> Operator:
    operator = Operator("planted")
    finalizers = {"planted.opsdk.dev/record": finalize} if finalize is not None else {}
    operator.reconciler(Site, finalizers=finalizers, rbac=[patches_status(Site)])(reconcile)
    return operator


def _identity(site: Site) -> str:
    return f"{site.metadata.namespace}/{site.metadata.name}"


def _leaking(records: Records) -> Operator:
    async def finalize(site: Site, ctx: Context) -> None:
        if site.status is not None and site.status.record in records.records:
            await records.delete(site.status.record)

    async def reconcile(site: Site, ctx: Context) -> None:
        record = site.status.record if site.status is not None else ""
        record = record or await records.create(_identity(site))
        async with ctx.status(site) as patch:
            patch.status.record = record

    return _operator(reconcile, finalize)


def leaked_record(_: ClusterSnapshot) -> Doubles[Records]:
    """The bug: a record whose name could not be written down stays, and another one is created."""
    return _doubles(_leaking)


def _careful(records: Records, *, tolerant: bool) -> Operator:
    async def finalize(site: Site, ctx: Context) -> None:
        if tolerant:
            while name := await records.find(_identity(site)):
                await records.delete(name)
        else:
            await records.delete(site.status.record if site.status is not None else "")

    async def reconcile(site: Site, ctx: Context) -> None:
        record = await records.find(_identity(site)) or await records.create(_identity(site))
        async with ctx.status(site) as patch:
            patch.status.record = record

    return _operator(reconcile, finalize)


def leaked_record_repaired(_: ClusterSnapshot) -> Doubles[Records]:
    """A record is looked for before another one is created."""
    return _doubles(lambda records: _careful(records, tolerant=True))


def stuck_finalizer(_: ClusterSnapshot) -> Doubles[Records]:
    """The bug: the site is never let go when its record has gone already."""
    return _doubles(lambda records: _careful(records, tolerant=False))


def stuck_finalizer_repaired(_: ClusterSnapshot) -> Doubles[Records]:
    """A record that has gone needs no deletion."""
    return _doubles(lambda records: _careful(records, tolerant=True))


def kept_record(_: ClusterSnapshot) -> Doubles[Records]:
    """The bug: nothing deletes the record of a site that goes."""

    def make(records: Records) -> Operator:
        async def reconcile(site: Site, ctx: Context) -> None:
            record = await records.find(_identity(site)) or await records.create(_identity(site))
            async with ctx.status(site) as patch:
                patch.status.record = record

        return _operator(reconcile, None)

    return _doubles(make)


def kept_record_repaired(_: ClusterSnapshot) -> Doubles[Records]:
    """A finalizer deletes it."""
    return _doubles(lambda records: _careful(records, tolerant=True))


def shared_record(_: ClusterSnapshot) -> Doubles[Records]:
    """The bug: sites of one name in two namespaces have one record."""
    return _doubles(lambda records: _named(records, lambda site: site.metadata.name))


def shared_record_repaired(_: ClusterSnapshot) -> Doubles[Records]:
    """The text of a record has the namespace."""
    return _doubles(lambda records: _named(records, _identity))


def _named(records: Records, text_of: Callable[[Site], str]) -> Operator:
    async def finalize(site: Site, ctx: Context) -> None:
        while name := await records.find(text_of(site)):
            await records.delete(name)

    async def reconcile(site: Site, ctx: Context) -> None:
        record = await records.find(text_of(site)) or await records.create(text_of(site))
        async with ctx.status(site) as patch:
            patch.status.record = record

    return _operator(reconcile, finalize)


# ---------------------------------------------------------------- kubernetes-sigs/cluster-api-provider-aws#1454
_FINALIZER: Final = "planted.opsdk.dev/record"


def _by_hand(records: Records, *, is_early: bool) -> Operator:
    async def reconcile(request: Request, ctx: Context) -> None:
        site = await ctx.client.get_or_none(Site, request.name, namespace=request.namespace)
        if site is None:
            return
        if is_deleting(site):
            while name := await records.find(_identity(site)):
                await records.delete(name)
            if remove_finalizer(site, _FINALIZER):
                await ctx.client.update(site)
            return
        if is_early and add_finalizer(site, _FINALIZER):
            site = await ctx.client.update(site)
        record = await records.find(_identity(site)) or await records.create(_identity(site))
        async with ctx.status(site) as patch:
            patch.status.record = record
        if add_finalizer(site, _FINALIZER):
            await ctx.client.update(site)

    return operator_of(Site, reconcile, rbac=[patches_status(Site)])


def late_finalizer(_: ClusterSnapshot) -> Doubles[Records]:
    """The bug: the finalizer is stored after the record, so that the record of an object that goes early stays."""
    return _doubles(lambda records: _by_hand(records, is_early=False))


def late_finalizer_repaired(_: ClusterSnapshot) -> Doubles[Records]:
    """The finalizer is stored before anything else."""
    return _doubles(lambda records: _by_hand(records, is_early=True))
