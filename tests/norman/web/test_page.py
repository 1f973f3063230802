"""The web page in a real Chromium."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from normankit import V3, NormanKit

from opsdk.api.authentication.v1 import UserInfo
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.server import WebServer
from opsdk.norman.model import ApiContext, RawResource, RequestResult, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Action, Field, Filter, Modifier
from opsdk.norman.server.server import NormanOptions, NormanServer
from opsdk.norman.stores.memory import MemoryStore
from opsdk.norman.tokens import token_of
from opsdk.norman.web.page import WebPage

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed: it drives the browser")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.realtime,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
]


@dataclass
class Browsing:
    """A page, what went wrong in it, and its server."""

    page: Any
    url: str
    kit: NormanKit
    problems: list[str] = field(default_factory=list)


def library() -> SchemaRegistry:
    """Books with a loan action, and authors that books refer to."""

    def format_book(context: ApiContext, resource: RawResource) -> None:
        if resource.values.get("state") == "lent":
            resource.actions.pop("lend", None)

    async def lend(context: ApiContext, name: str, body: dict[str, Any]) -> RequestResult:
        store = context.schema.store  # type: ignore[union-attr]
        changes = {"state": "lent", "pages": body["days"]}
        await store.update(context, context.schema, changes, context.id)  # type: ignore[union-attr, arg-type]
        return None

    schemas = SchemaRegistry()
    every = Filter(modifiers=tuple(Modifier))
    methods = {"resource_methods": ("GET", "PUT", "DELETE"), "collection_methods": ("GET", "POST")}
    schemas.add(
        Schema(id="author", version=V3, resource_fields={"name": Field(type="string")}, store=MemoryStore(), **methods)
    )  # type: ignore[arg-type]
    loan = {"days": Field(type="int", min=1, max=30, required=True, description="how long")}
    schemas.add(Schema(id="loan", version=V3, resource_fields=loan))
    schemas.add(
        Schema(
            id="book",
            version=V3,
            description="What the library lends.",
            resource_fields={
                "name": Field(type="dnsLabel", required=True, update=False),
                "title": Field(type="string", max_length=40, nullable=True),
                "state": Field(type="enum", options=("active", "lent"), default="active"),
                "pages": Field(type="int", min=1, nullable=True),
                "sold": Field(type="boolean", nullable=True),
                "authorId": Field(type="reference[author]", nullable=True),
                "tags": Field(type="array[string]", nullable=True),
                "labels": Field(type="map[string]", nullable=True),
                "created": Field(type="date", nullable=True),
            },
            collection_filters=dict.fromkeys(("name", "title", "pages"), every),
            resource_actions={"lend": Action(input="loan")},
            action_handler=lend,
            formatter=format_book,
            store=MemoryStore(),
            **methods,  # type: ignore[arg-type]
        )
    )
    return schemas


@asynccontextmanager
async def browsing(schemas: SchemaRegistry | None = None, **options: Any) -> AsyncIterator[Browsing]:
    """A browser on a server; at the end no console error and no failed request is left."""
    server = NormanServer(schemas or library(), options=NormanOptions(page=WebPage(title="library"), **options))
    async with WebServer(server.app) as web, playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1200, "height": 800})
        result = Browsing(page, web.url, NormanKit(server))
        page.on("console", lambda message: result.problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: result.problems.append(str(error)))
        yield result
        await browser.close()
        assert result.problems == []


async def test_browse_create_edit_act_and_delete() -> None:
    """The whole life of an object through the page, with a validation error on the way."""
    async with browsing() as b:
        await b.kit.post("/v3/authors", {"name": "ada"})
        await b.page.goto(b.url)
        await b.page.click("main >> text=books")
        await b.page.wait_for_selector("#empty:visible")
        await b.page.click("#create")
        await b.page.fill("[name=name]", "Not A Label")
        await b.page.click("button.primary")
        problem = b.page.locator("[data-field=name] .problem")
        await problem.wait_for(state="visible")
        assert "InvalidFormat" in await problem.inner_text()
        await b.page.fill("[name=name]", "dune")
        await b.page.fill("[name=title]", 'Dune "1965"')
        await b.page.fill("[name=pages]", "412")
        await b.page.check("[name=sold]")
        await b.page.fill("[name=tags]", "sand\nspice")
        await b.page.fill("[name=labels]", "genre: novel\nyear: '1965'")
        await b.page.fill("[name=authorId]", "ada")
        await b.page.click("button.primary")
        await b.page.wait_for_url("**/v3/books/dune")
        stored = (await b.kit.get("/v3/books/dune")).body
        assert (stored["pages"], stored["sold"], stored["tags"]) == (412, True, ["sand", "spice"])
        assert (stored["title"], stored["labels"]) == ('Dune "1965"', {"genre": "novel", "year": "1965"})
        assert "genre: novel" in await b.page.inner_text("#yaml")
        assert "curl -H" in await b.page.locator("#curl").text_content()
        await b.page.click("#edit")
        await b.page.fill("[name=pages]", "500")
        await b.page.fill("[name=title]", "")
        await b.page.click("button.primary")
        await b.page.wait_for_url("**/v3/books/dune")
        await b.page.wait_for_selector("text=500")
        assert (await b.kit.get("/v3/books/dune")).body.get("title") is None
        await b.page.click("button.action")
        await b.page.fill("dialog [name=days]", "7")
        await b.page.click("dialog button.primary")
        await b.page.wait_for_selector(".state-lent")
        assert await b.page.locator("button.action").count() == 0
        await b.page.click("a:text('ada')")
        await b.page.wait_for_url("**/v3/authors/ada")
        await b.page.click("a:text('books'):near(h2:text('Links'))")
        await b.page.wait_for_selector("#row-dune")
        await b.page.click("#row-dune .id a")
        await b.page.click("#remove")
        await b.page.click("#remove:has-text('sure')")
        await b.page.wait_for_selector("#empty:visible")
        assert (await b.kit.get("/v3/books")).data == []


async def test_changes_show_as_they_happen() -> None:
    """Creates, updates and deletes of others appear without a reload; the count follows."""
    async with browsing() as b:
        await b.kit.post("/v3/books", {"name": "a", "pages": 1})
        await b.page.goto(f"{b.url}/v3/books")
        await b.page.wait_for_selector("#live.on")
        await b.kit.post("/v3/books", {"name": "b", "title": "<b>new</b>", "pages": 2})
        await b.page.wait_for_selector("#row-b >> text=<b>new</b>")
        assert await b.page.inner_text("#total") == "2"
        await b.kit.call("PUT", "/v3/books/a", {"pages": 99})
        await b.page.wait_for_selector("#row-a >> text=99")
        await b.kit.call("DELETE", "/v3/books/a")
        await b.page.wait_for_selector("#row-a", state="detached")
        assert await b.page.inner_text("#total") == "1"
        await b.page.goto(f"{b.url}/v3/books?pages=2")
        await b.page.wait_for_selector("#live.on")
        await b.kit.post("/v3/books", {"name": "other", "pages": 3})
        await b.kit.call("PUT", "/v3/books/b", {"pages": 3})
        await b.page.wait_for_selector("#row-b", state="detached")
        await b.kit.call("PUT", "/v3/books/other", {"pages": 2})
        await b.page.wait_for_selector("#row-other")
        assert await b.page.inner_text("#total") == "1"


async def test_ten_thousand_objects_load_as_they_scroll() -> None:
    """The table shows the first rows and the total at once; more rows come when they are scrolled to."""
    async with browsing() as b:
        for number in range(10_000):
            await b.kit.post("/v3/books", {"name": f"b{number:05}", "pages": number + 1})
        await b.page.goto(f"{b.url}/v3/books")
        assert await b.page.inner_text("#total") == "10000"
        assert await b.page.locator("#rows tr[data-id]").count() == 100
        await b.page.locator("tr.more").scroll_into_view_if_needed()
        await b.page.wait_for_selector("#row-b00150")
        await b.page.click("thead a:text('pages')")
        await b.page.click("thead a:text('pages')")
        await b.page.wait_for_selector("#rows tr:first-child[data-id=b09999]")
        await b.page.fill(".filters [name=name]", "b04242")
        await b.page.keyboard.press("Enter")
        await b.page.wait_for_selector("#total:text-is('1')")


async def test_keys_and_themes() -> None:
    """Keys move, open, go up and filter types; the theme survives a reload."""
    async with browsing() as b:
        for name in ("a", "b"):
            await b.kit.post("/v3/books", {"name": name})
        await b.page.emulate_media(color_scheme="light")
        await b.page.goto(f"{b.url}/v3/books")
        light = await b.page.evaluate("getComputedStyle(document.body).backgroundColor")
        await b.page.keyboard.press("t")
        await b.page.reload()
        assert await b.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
        await b.page.keyboard.press("j")
        await b.page.keyboard.press("j")
        await b.page.keyboard.press("Enter")
        await b.page.wait_for_url("**/v3/books/b")
        await b.page.keyboard.press("u")
        await b.page.wait_for_url("**/v3/books")
        await b.page.keyboard.press("/")
        await b.page.keyboard.type("auth")
        assert await b.page.locator("aside li:visible").all_inner_texts() == ["authors"]
        await b.page.keyboard.press("Escape")
        await b.page.keyboard.press("?")
        await b.page.wait_for_selector("#keys[open]")
        await b.page.keyboard.press("Escape")
        await b.page.keyboard.press("c")
        await b.page.wait_for_url("**_form=create")


async def test_a_browser_signs_in_with_a_token() -> None:
    """Without a token there is a form; a wrong one shows it again; the cookie is not visible to scripts."""

    async def authenticate(request: HttpRequest) -> UserInfo | None:
        return UserInfo(username="ada") if token_of(request) == "good/token" else None

    async with browsing(authenticate=authenticate) as b:
        await b.page.goto(f"{b.url}/v3/books")
        assert await b.page.locator("aside li").count() == 0
        for token in ("bad", "good/token"):
            await b.page.fill("#token", token)
            await b.page.click("button.primary")
        await b.page.wait_for_selector("h1:text('books')")
        assert await b.page.inner_text(".user") == "ada"
        assert "norman-token" not in await b.page.evaluate("document.cookie")
        assert "Bearer $TOKEN" in await b.page.locator("#curl").text_content()
        await b.page.click("text=sign out")
        await b.page.wait_for_selector("#token")


async def test_what_objects_say_is_never_code() -> None:
    """Markup and scripts in names, values and errors are shown as text."""
    evil = '<img src=x onerror="document.title=1">'
    async with browsing() as b:
        await b.kit.post("/v3/books", {"name": "a", "title": evil, "tags": [evil], "labels": {"x": evil}})
        for path in ("/v3/books", "/v3/books/a", "/v3/books/a?_form=edit", "/v3/books?name=%3Cscript%3E"):
            await b.page.goto(f"{b.url}{path}")
            assert await b.page.locator("main img").count() == 0
            assert "library" in await b.page.title()


async def test_a_login_that_does_not_parse_is_refused() -> None:
    """A broken body is a 422, and a sign-in from another site is refused."""
    async with browsing() as b:
        broken = await b.kit.raw("POST", "/norman-ui/login", b"{", {"content-type": "application/json"})
        assert broken.status == 422
        cross = await b.kit.raw("POST", "/norman-ui/login", b"token=x", {"sec-fetch-site": "cross-site"})
        assert cross.status == 403
        for back, path in (
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/%09/evil.example", "/%09/evil.example"),
            ("/%5cevil.example", "/%5Cevil.example"),
            ("/v3/books%3Fname=%C3%A9", "/v3/books?name=%C3%A9"),
        ):
            outside = await b.kit.raw("POST", f"/norman-ui/logout?back={back}")
            assert dict(outside.headers)["location"] == path
