"""A demo: a local API server, the operator, and the life cycle of one Website. ``python -m website.demo``."""

from __future__ import annotations

import asyncio
import time

from envtest import Environment
from opsdk import Client, Cluster, ObjectMeta
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Service
from opsdk.client.patch import merge_patch
from opsdk.testing.eventually import assert_condition, events_of, eventually
from opsdk.testing.running import running
from website.__main__ import operator
from website.api import Website, WebsiteSpec
from website.operator import DIRECTORY

KEY = "default/hello"
STARTED = time.monotonic()


def say(text: str) -> None:
    """Print one line with the elapsed time."""
    print(f"{time.monotonic() - STARTED:6.2f}s  {text}", flush=True)  # noqa: T201 - output of the demo


async def run_demo(client: Client) -> None:
    """Create, update and delete a Website, and delete one of its children."""

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
    say(f"Website hello is created; the defaulting webhook set the image to {site.spec.image}.")
    for kind in (ConfigMap, Service, Deployment):
        await eventually(lambda kind=kind: client.get(kind, KEY))  # type: ignore[misc]
        say(f"  the operator created its {kind.__name__}")
    await eventually(lambda: is_ready("nginx:stable"))
    say("  status: Ready, 2 replicas serve nginx:stable")

    await client.patch(site, merge_patch({"spec": {"image": "nginx:1.28"}}))
    say("The image was changed to nginx:1.28.")
    await eventually(lambda: is_ready("nginx:1.28"))
    say("  status: Ready, the rollout is complete")

    service = await client.get(Service, KEY)
    await client.delete(service)
    say("The Service was deleted with the client.")
    await eventually(lambda: is_another(service))
    say("  the operator created it again")

    events = [f"{event.reason} {event.note}" for event in await events_of(client, site)]
    await client.delete(site)
    say("Website hello was deleted.")
    await eventually(lambda: is_gone(Website))
    assert not await client.list(ConfigMap, namespace="default", label_selector=DIRECTORY)
    say("  its finalizer removed it from the directory")
    await eventually(lambda: is_gone(Deployment))
    say("  its Deployment, Service and ConfigMap were garbage collected")
    say(f"Its Events: {'; '.join(events)}")


async def main() -> None:
    """Start an API server and the operator, and run the demo."""
    async with (
        Environment(controllers="cluster") as env,
        Cluster(env.config, on_warning=lambda _, text: say(f"The server warns: {text}.")) as cluster,
    ):
        say("The local API server is ready.")
        async with running(operator, env):
            say("The operator is running. Its CRD and webhooks are installed.")
            await run_demo(cluster.uncached)
    say("The demo is finished.")


if __name__ == "__main__":
    asyncio.run(main())
