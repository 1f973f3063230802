"""Schema templates: selection and order."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from opsdk.apiserver.auth.user import User
from opsdk.norman.steve.cluster_schemas import SteveSchema
from opsdk.norman.steve.store import Target
from opsdk.norman.steve.template import SchemaTemplate, SchemaTemplates

DEPLOYMENT = SteveSchema(
    id="apps.deployment",
    plural_name="apps.deployments",
    group="apps",
    version="v1",
    kind="Deployment",
    resource="deployments",
    namespaced=True,
)
TARGET = Target(user=User(name="ann"), schema=DEPLOYMENT)


def adding(text: str) -> SchemaTemplate:
    """A template that writes its mark into schemas and resources."""
    return SchemaTemplate(
        customize=lambda schema: replace(schema, description=schema.description + text),
        formatter=lambda resource, _: {**resource, "marks": resource.get("marks", "") + text},
    )


def test_special_templates_come_before_general_ones() -> None:
    """Templates by id, by group and kind, by group, and for all types apply in this order."""
    templates = SchemaTemplates(
        [
            adding("all "),
            replace(adding("group "), group="apps"),
            replace(adding("kind "), group="apps", kind="Deployment"),
            replace(adding("id "), id="apps.deployment"),
            replace(adding("wrong "), id="pod"),
            replace(adding("wrong "), group="batch"),
            replace(adding("wrong "), kind="Deployment"),
        ]
    )
    assert templates.customize(DEPLOYMENT).description == "id kind group all "
    assert templates.format({}, TARGET)["marks"] == "id kind group all "


def test_the_most_special_store_and_action_count() -> None:
    """The most specific store and action win; without a store, a type has the default."""
    one: Any = object()
    other: Any = object()

    async def action(target: Target, body: Any) -> Any:
        return body

    templates = SchemaTemplates(
        [SchemaTemplate(store=one), SchemaTemplate(id="apps.deployment", store=other, actions={"roll": action})]
    )
    assert templates.store(DEPLOYMENT, one) is other
    assert templates.custom_store(DEPLOYMENT)
    assert not SchemaTemplates().custom_store(DEPLOYMENT)
    assert SchemaTemplates().store(DEPLOYMENT, one) is one
    assert templates.action(DEPLOYMENT, "roll") is action
    assert templates.action(DEPLOYMENT, "other") is None
    assert templates.customize(DEPLOYMENT).actions == ("roll",)
