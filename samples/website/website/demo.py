"""A short story: a local API server, the operator, and one Website's life. ``python -m website.demo``."""

from __future__ import annotations

import asyncio
import time

from envtest import Environment
from opsdk import Client, Cluster, ObjectMeta
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Service
from opsdk.patch import merge_patch
from opsdk.testing.eventually import assert_condition, events_of, eventually
from opsdk.testing.running import running
from website.__main__ import operator
from website.api import Website, WebsiteSpec
from website.operator import DIRECTORY

KEY = "default/hello"
STARTED = time.monotonic()


def say(text: str) -> None:
    """Print one line of the story."""
    print(f"{time.monotonic() - STARTED:6.2f}s  {text}", flush=True)  # noqa: T201 - the story is the output


async def story(client: Client) -> None:
    """Create, change, damage and delete a Website."""

    async def is_ready(image: str) -> Website | None:
        live = await client.get(Website, KEY)
        assert_condition(live, "Ready")
        return live if live.status is not None and live.status.image == image else None

    async def is_gone(kind: type[Website | Deployment]) -> bool:
        return await client.get_or_none(kind, KEY) is None

    async def is_another(service: Service) -> bool:
        return (await client.get(Service, KEY)).metadata.uid != service.metadata.uid

    meta = ObjectMeta(name="hello", namespace="default")
    site = await client.create(Website(metadata=meta, spec=WebsiteSpec(image="nginx", replicas=2, content="Hi!")))
    say(f"Website hello is created; its defaulter makes the image {site.spec.image}.")
    for kind in (ConfigMap, Service, Deployment):
        await eventually(lambda kind=kind: client.get(kind, KEY))  # type: ignore[misc]
        say(f"  the operator has created its {kind.__name__}")
    await eventually(lambda: is_ready("nginx:stable"))
    say("  status: Ready, 2 replicas serve nginx:stable")

    await client.patch(site, merge_patch({"spec": {"image": "nginx:1.28"}}))
    say("The image is changed to nginx:1.28.")
    await eventually(lambda: is_ready("nginx:1.28"))
    say("  rolled out: Ready again")

    service = await client.get(Service, KEY)
    await client.delete(service)
    say("The Service is deleted by hand.")
    await eventually(lambda: is_another(service))
    say("  it is back")

    events = [f"{event.reason} {event.note}" for event in await events_of(client, site)]
    await client.delete(site)
    say("Website hello is deleted.")
    await eventually(lambda: is_gone(Website))
    assert not await client.list(ConfigMap, namespace="default", label_selector=DIRECTORY)
    say("  its finalizer has taken it out of the directory, and let it go")
    await eventually(lambda: is_gone(Deployment))
    say("  its Deployment, Service and ConfigMap went with it")
    say(f"Its Events: {'; '.join(events)}")


async def main() -> None:
    """Start an API server and the operator, and tell the story."""
    async with Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        say("A local API server is ready.")
        async with running(operator, env):
            say("The operator runs. Its definition and its webhooks are installed.")
            await story(cluster.uncached)
    say("The end.")


if __name__ == "__main__":
    asyncio.run(main())
