"""knative-operator: high availability, two implementations of an Ingress, a source."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from opsdk import Context, Model, Object
from opsdk.api.apps.v1 import Deployment
from tests.corpus.acto.kit import (
    ABSENT_IMAGE,
    IMAGE,
    Status,
    acto_case,
    apply_and_report,
    gvk,
    reconciled,
    workload,
)


class HighAvailability(Model, kw_only=True):
    """How many pods each part has."""

    replicas: Annotated[int, Meta(ge=0, le=5)] | None = None


class ServingSpec(Model, kw_only=True):
    """How available the parts are."""

    high_availability: HighAvailability | None = None


class Serving(Object[ServingSpec, Status]):
    """An installation of Knative Serving."""

    gvk = gvk("Serving")


@reconciled(Serving, owns=[Deployment], reports_errors=False)
async def scale_the_parts(serving: Serving, ctx: Context, *, repaired: bool) -> None:
    """It does not expect high availability without a number of replicas: each reconcile raises a TypeError."""
    replicas = 1
    if (availability := serving.spec.high_availability) is not None:
        count: Any = availability.replicas
        replicas = max(1 if repaired and count is None else count, 0)
    await apply_and_report(serving, ctx, workload(serving, replicas=replicas))


class Implementation(Model, kw_only=True):
    """One implementation."""

    enabled: bool = False


class Ingresses(Model, kw_only=True):
    """The implementations."""

    contour: Implementation = field(default_factory=Implementation)
    kourier: Implementation = field(default_factory=Implementation)


class RoutedServingSpec(Model, kw_only=True):
    """The implementations of the Ingress."""

    ingress: Ingresses = field(default_factory=Ingresses)


class RoutedServing(Object[RoutedServingSpec, Status]):
    """An installation of Knative Serving with an Ingress."""

    gvk = gvk("RoutedServing")


@reconciled(RoutedServing, owns=[Deployment])
async def route_requests(serving: RoutedServing, ctx: Context, *, repaired: bool) -> None:
    """An implementation that is disabled stays installed."""
    ingress = serving.spec.ingress
    for name, part in (("contour", ingress.contour), ("kourier", ingress.kourier)):
        child = workload(serving, name)
        if part.enabled:
            await ctx.apply(child)
        elif repaired:
            await ctx.client.delete(child, missing_ok=True)


class Sources(Model, kw_only=True):
    """The sources of events."""

    rabbitmq: Implementation = field(default_factory=Implementation)


class EventingSpec(Model, kw_only=True):
    """The sources of events."""

    source: Sources = field(default_factory=Sources)


class Eventing(Object[EventingSpec, Status]):
    """An installation of Knative Eventing."""

    gvk = gvk("Eventing")


@reconciled(Eventing, owns=[Deployment])
async def receive_events(eventing: Eventing, ctx: Context, *, repaired: bool) -> None:
    """A source that is enabled gets pods that never run. No status says so."""
    await ctx.apply(workload(eventing))
    if eventing.spec.source.rabbitmq.enabled:
        await ctx.apply(workload(eventing, "rabbitmq", image=IMAGE if repaired else ABSENT_IMAGE))
    else:
        await ctx.client.delete(workload(eventing, "rabbitmq"), missing_ok=True)


ON = Implementation(enabled=True)
CASES = [
    acto_case(
        scale_the_parts, Serving, ("knative-operator", 1137), "operator error",
        [ServingSpec(), ServingSpec(high_availability=HighAvailability()), ServingSpec()],
    ),
    acto_case(
        route_requests, RoutedServing, ("knative-operator", 1157), "operator error",
        [RoutedServingSpec(ingress=Ingresses(contour=ON)), RoutedServingSpec(ingress=Ingresses(kourier=ON))],
    ),
    acto_case(
        receive_events, Eventing, ("knative-operator", 1158), "undesired state",
        [EventingSpec(), EventingSpec(source=Sources(rabbitmq=ON)), EventingSpec()],
    ),
]  # fmt: skip
"""The cases of this operator."""
