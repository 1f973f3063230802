"""A short story: a local API server, the operator, and one Website's life. ``python -m website.demo``."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from opsdk import Client, Cluster, MergeFrom, ObjectMeta, Unstructured, crd_for, deep_copy, load_config
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Service
from opsdk.api.events.v1 import Event
from opsdk.recipes import is_condition_true
from website.api import Website, WebsiteSpec
from website.operator import DIRECTORY

T = TypeVar("T")

NAME, NAMESPACE = "hello", "default"
_PATIENCE = 60.0


class StoryError(Exception):
    """Something in the story did not come about."""


_began = time.monotonic()


def say(text: str) -> None:
    """One line of the story."""
    print(f"{time.monotonic() - _began:6.2f}s  {text}", flush=True)  # noqa: T201 - the story is the output


async def eventually(what: str, look: Callable[[], Awaitable[T | None]]) -> T:
    """Wait until `look` finds something."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = await look()
        if found is not None:
            return found
        await asyncio.sleep(0.05)
    raise StoryError(f"waited {_PATIENCE:g} s in vain: {what}")


@asynccontextmanager
async def process(log: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python program beside us; stopped with SIGTERM at the end of the block."""
    with log.open("wb") as output:
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *arguments, stdout=asyncio.subprocess.PIPE, stderr=output
        )
        try:
            yield running
        finally:
            if running.returncode is None:
                running.terminate()
                await asyncio.wait_for(running.wait(), 40)


async def ready_line(server: asyncio.subprocess.Process) -> str:
    """The URL that the server says it serves at."""
    assert server.stdout is not None
    line = (await asyncio.wait_for(server.stdout.readline(), _PATIENCE)).decode().strip()
    if not line.startswith("ready "):
        raise StoryError(f"the API server did not start: {line!r}")
    return line.removeprefix("ready ")


async def ready(client: Client, image: str) -> Website | None:
    """The site, once it serves `image`."""
    site = await client.get(Website, NAME, namespace=NAMESPACE)
    status = site.status
    if status is None or status.observed_generation != site.metadata.generation:
        return None
    return site if is_condition_true(status.conditions, "Ready") and status.image == image else None


async def story(client: Client) -> None:
    """What happens."""
    await client.create(Unstructured.from_tree(crd_for(Website)))
    say("The kind Website is installed (a CustomResourceDefinition made from a Python class).")
    first, second = "nginx:1.27", "nginx:1.28"
    site = Website(
        metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), spec=WebsiteSpec(image=first, replicas=2, content="Hi!")
    )
    await client.create(site)
    say(f"Website {NAME} is created: 2 replicas of {first}.")
    for kind in (ConfigMap, Service, Deployment):
        await eventually(f"the {kind.__name__}", partial(client.get_or_none, kind, NAME, namespace=NAMESPACE))
        say(f"  the operator has made its {kind.__name__}")
    site = await eventually("Ready", lambda: ready(client, first))
    say(f"  status: Ready, {site.status.ready_replicas if site.status else 0} replicas serve {first}")

    before = deep_copy(site)
    site.spec.image = second
    await client.patch(site, MergeFrom(before))
    say(f"The image is changed to {second}.")
    site = await eventually("the new image", lambda: ready(client, second))
    say(f"  rolled through: Ready again, serving {second}")

    old = await client.get(Service, NAME, namespace=NAMESPACE)
    await client.delete(old)
    say("Somebody deletes the Service by hand.")

    async def another() -> Service | None:
        found = await client.get_or_none(Service, NAME, namespace=NAMESPACE)
        return found if found is not None and found.metadata.uid != old.metadata.uid else None

    await eventually("a new Service", another)
    say("  it is back")

    await client.delete(site)
    say(f"Website {NAME} is deleted.")

    async def gone() -> bool | None:
        return None if await client.get_or_none(Website, NAME, namespace=NAMESPACE) else True

    await eventually("the Website to go", gone)
    directory = await client.list(ConfigMap, namespace=NAMESPACE, label_selector=DIRECTORY)
    if any(entry.data.get("site") == NAME for entry in directory):
        raise StoryError("the finalizer left the site in the directory")
    say("  its finalizer has taken it out of the directory, and let it go")

    async def orphan() -> bool | None:
        return None if await client.get_or_none(Deployment, NAME, namespace=NAMESPACE) else True

    await eventually("its Deployment to follow", orphan)
    say("  its Deployment, Service and ConfigMap went with it")
    events = await client.list(Event, namespace=NAMESPACE)
    notes = [e.note for e in events if e.note and (e.reporting_controller or "").startswith("website")]
    say(f"Events told meanwhile: {'; '.join(notes)}")


async def main() -> None:
    """Set the stage, tell the story, clear up."""
    with tempfile.TemporaryDirectory(prefix="opsdk-demo-") as folder:
        stage = Path(folder)
        kubeconfig = stage / "kubeconfig"
        serve = ("envtest", "serve", "--port", "0", "--kubeconfig", str(kubeconfig), "--controllers", "cluster")
        logs = stage / "server.log", stage / "operator.log"
        try:
            async with process(logs[0], *serve) as server:
                say(f"A local API server is ready at {await ready_line(server)}.")
                async with process(logs[1], "website", "--kubeconfig", str(kubeconfig)):
                    say("The operator is started, as a program of its own.")
                    async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
                        await story(cluster.uncached)
        except StoryError:
            for log in filter(Path.exists, logs):
                print(f"--- {log.name}\n{log.read_text()}", file=sys.stderr)  # noqa: T201 - why it went wrong
            raise
    say("The end.")


if __name__ == "__main__":
    asyncio.run(main())
