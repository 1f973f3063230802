"""A tenant's Pod in the browser of an administrator, in a real Chromium."""

from __future__ import annotations

import shutil

import pytest
from stevekit import running_cluster

import envtest
from opsdk.api.core.v1 import Container, Pod, PodSpec, Secret
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.norman.cluster_api import cluster_api
from opsdk.norman.steve import SteveApi, SteveApp
from opsdk.norman.tokens import token_review
from opsdk.norman.web.page import WebPage
from opsdk.structured_merge.value import JsonObject

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed: it drives the browser")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.realtime,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
]
SCRIPT = b"""<!doctype html><title>tenant</title><script>
document.title = "ran";
fetch("/v1/secrets/default/s").then((r) => r.text()).then((text) => fetch("stolen?" + encodeURIComponent(text)));
const token = (document.cookie.match(/CSRF=([^;]+)/) || [])[1];
fetch("/v1/secrets/default/s", { method: "DELETE", headers: { "X-API-CSRF": token } });
</script>"""


async def test_a_pod_runs_no_script_with_the_session_of_an_administrator() -> None:
    """Neither where the browser is signed in by the cookie, nor where it sends credentials on its own."""
    opened: list[str] = []

    def tenant(_: JsonObject, path: str, request: HttpRequest) -> HttpResponse:
        opened.append(path)
        return HttpResponse(200, [("content-type", "text/html")], SCRIPT)

    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster) as api:
        env.responders.proxied = tenant
        client = cluster.uncached
        await client.create(Secret(metadata=ObjectMeta(name="s", namespace="default"), string_data={"x": "secret"}))
        spec = PodSpec(containers=[Container(name="web", image="web")])
        await client.create(Pod(metadata=ObjectMeta(name="shop", namespace="default"), spec=spec))
        steve = SteveApp(api, token_review(cluster.uncached))
        async with cluster_api(cluster, page=WebPage()) as norman:

            async def handle(request: HttpRequest) -> HttpResponse:
                return await (steve if request.path.startswith(("/v1", "/api")) else norman).handle(request)

            async with WebServer(asgi(handle), ServeOptions(port=0)) as web, playwright.async_playwright() as driver:
                browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                page = await browser.new_page()
                token = env.add_user("root", groups=["system:masters"]).token
                await page.goto(f"{web.url}/v3/secrets")
                await page.fill("#token", token)
                await page.click("button.primary")
                await page.wait_for_selector("h1:text('secrets')")
                assert (await page.goto(f"{web.url}/v1/secrets")).status == 200  # the session is signed in
                proxied = f"{web.url}/api/v1/namespaces/default/pods/shop/proxy/"
                assert (await page.goto(proxied)).status == 401
                assert opened == []
                await page.goto(f"{web.url}/v3/secrets")
                assert await page.evaluate("url => fetch(url).then((r) => r.status)", proxied) == 401
                await page.set_extra_http_headers({"Authorization": f"Bearer {token}"})
                async with page.expect_download():
                    await page.evaluate("url => { location = url }", proxied)
                assert opened == [""]
                await browser.close()
        assert (await client.get(Secret, "default/s")).data == {"x": b"secret"}
