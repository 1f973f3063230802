"""The Website kind."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opsdk import Condition, GroupVersionKind, Model, Object
from opsdk.apimachinery.crd import PrinterColumn, Rule, Scale

GROUP = "demo.opsdk.dev"
FINALIZER = f"{GROUP}/directory"


class WebsiteSpec(Model):
    """The desired state of a Website."""

    rules = (Rule("!self.image.endsWith(':latest')", message="needs a fixed tag", field_path=".image"),)

    image: Annotated[str, Meta(min_length=1, description="The web server, e.g. nginx:1.27.")]
    replicas: Annotated[int, Meta(ge=0, le=50)] = 1
    port: Annotated[int, Meta(ge=1, le=65535)] = 80
    content: Annotated[str, Meta(description="The content of index.html.")] = "<h1>Hello</h1>"


class WebsiteStatus(Model):
    """The observed state of a Website."""

    ready_replicas: int = 0
    image: str = ""
    observed_generation: int = 0
    conditions: list[Condition] = field(default_factory=list)


class Website(Object[WebsiteSpec, WebsiteStatus]):
    """A website: a Deployment, a Service and a ConfigMap."""

    gvk = GroupVersionKind(GROUP, "v1", "Website")
    short_names = ("site",)
    scale = Scale(status_replicas_path=".status.readyReplicas")
    printer_columns = (
        PrinterColumn(name="Image", json_path=".spec.image"),
        PrinterColumn(name="Replicas", json_path=".spec.replicas", type="integer"),
        PrinterColumn(name="Ready", json_path='.status.conditions[?(@.type=="Ready")].status'),
        PrinterColumn(name="Age", json_path=".metadata.creationTimestamp", type="date"),
    )
