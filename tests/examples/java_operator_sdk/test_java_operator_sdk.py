"""Java Operator SDK's samples of workflows, written anew.

Upstream: github.com/operator-framework/java-operator-sdk/sample-operators (78b877be)
"""

from __future__ import annotations

import asyncio

from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.api.networking.v1 import Ingress
from opsdk.client.patch import merge_patch
from tests.examples.java_operator_sdk import mysql_schema, web_page
from tests.examples.java_operator_sdk.mysql_schema import MySQLSchema, Schema, SchemaSpec
from tests.examples.java_operator_sdk.web_page import WebPage, WebPageSpec
from tests.examples.running import assert_at_rest, example


async def test_webpage() -> None:
    """Java Operator SDK's web page: the Ingress comes and goes with its field."""
    operator = web_page.make_operator()
    async with example(operator, WebPage(spec=WebPageSpec(html="<html>", exposed=True))) as client:
        assert (await client.get(ConfigMap, "default/a-html")).data == {"index.html": "<html>"}
        assert await client.get_or_none(Ingress, "default/a") is not None
        page = await client.get(WebPage, "default/a")
        await client.patch(page, merge_patch({"spec": {"exposed": False}}))
        await asyncio.sleep(2)
        assert await client.get_or_none(Ingress, "default/a") is None
        await assert_at_rest(client, WebPage, operator)


async def test_mysql_schema() -> None:
    """Java Operator SDK's schema: created after its Secret, and deleted before it."""
    server: dict[str, Schema] = {}
    operator = mysql_schema.make_operator(server)
    async with example(operator, MySQLSchema(spec=SchemaSpec())) as client:
        assert server == {"a": Schema("a", "utf8")}
        obj = await client.get(MySQLSchema, "default/a")
        assert obj.status is not None
        assert (obj.status.url, obj.status.schema.after) == ("jdbc:mysql://db/a", "Secret default/a-secret")
        await assert_at_rest(client, MySQLSchema, operator, "requeue_after")
        await client.delete(obj)
        await asyncio.sleep(20)
        assert not server
        assert await client.get_or_none(Secret, "default/a-secret") is None
