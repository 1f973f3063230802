"""How fast the web page of opsdk.norman is: a table of many objects, and a change that shows.

``python -m benchmarks.runtime page [objects]``
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time

from playwright.async_api import async_playwright

from opsdk import RestConfig
from opsdk.http.server.server import WebServer
from opsdk.norman.client.client import NormanClient
from opsdk.norman.model import Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion, Field, Filter
from opsdk.norman.server.server import NormanOptions, NormanServer
from opsdk.norman.stores.memory import MemoryStore
from opsdk.norman.web.page import WebPage

_ROUNDS = 10


async def run(objects: int) -> None:
    """Print the seconds of loads and of changes in a real Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no Chromium on this machine: apt-get install chromium")
        return
    version = ApiVersion(version="v3", path="/v3")
    schemas = SchemaRegistry()
    schemas.add(
        Schema(
            id="book",
            version=version,
            resource_methods=("GET", "PUT", "DELETE"),
            collection_methods=("GET", "POST"),
            resource_fields={"name": Field(type="string"), "pages": Field(type="int"), "title": Field(type="string")},
            collection_filters={"name": Filter(), "pages": Filter()},
            store=MemoryStore(),
        )
    )
    server = NormanServer(schemas, options=NormanOptions(page=WebPage()))
    async with (
        WebServer(server.app) as web,
        NormanClient(RestConfig(host=web.url), "/v3") as client,
        async_playwright() as driver,
    ):
        for number in range(objects):
            await client.create("book", {"name": f"b{number:06}", "pages": number % 997, "title": f"Book {number}"})
        browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page()
        for title, query in (("by id", ""), ("sorted by pages", "?sort=pages&order=desc")):
            seconds = []
            for _ in range(_ROUNDS):
                began = time.perf_counter()
                await page.goto(f"{web.url}/v3/books{query}")
                await page.wait_for_selector("#rows tr[data-id] >> nth=99")
                seconds.append(time.perf_counter() - began)
            _print(f"{objects:,} objects, first rows {title}", seconds)
        await page.goto(f"{web.url}/v3/books")
        await page.wait_for_selector("#live.on")
        book, seconds = await client.by_id("book", "b000000"), []
        for number in range(_ROUNDS):
            text = f"changed {number}"
            appearing = asyncio.create_task(page.wait_for_selector(f"#row-b000000 >> text={text}"))
            await asyncio.sleep(0.2)
            began = time.perf_counter()
            await client.update(book, {"title": text})
            await appearing
            seconds.append(time.perf_counter() - began)
        _print("a change of another client shows", seconds)
        await browser.close()


def _print(title: str, seconds: list[float]) -> None:
    milliseconds = [value * 1000 for value in seconds]
    print(f"{title}: median {statistics.median(milliseconds):.0f} ms, longest {max(milliseconds):.0f} ms")
