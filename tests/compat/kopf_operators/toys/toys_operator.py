"""A kopf operator that fails and comes back, with an event handler, a daemon, and records under its own prefix."""

import asyncio

import kopf

PREFIX = "toys.migrate.test"
TOYS = ("migrate.test", "v1", "toys")


@kopf.on.startup()
async def configure(settings, memo: kopf.Memo, **_):
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX)
    memo.greeting = "hello"


@kopf.on.create(*TOYS)
def stubborn(retry, **_):
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.2)
    return {"retries": retry}


@kopf.on.create(*TOYS, retries=2, backoff=0.2)
def hopeless(**_):
    raise ValueError("never")


@kopf.on.create(*TOYS)
@kopf.on.update(*TOYS)
@kopf.on.resume(*TOYS)
async def greet(spec, memo, patch, reason, **kwargs):
    patch.status["greeting"] = f"{memo.greeting} {kwargs['name']}, {spec.get('size', 0)}"
    patch.metadata.annotations["migrate.test/greeted"] = "yes"


@kopf.on.event("v1", "configmaps", labels={"toy": kopf.PRESENT})
def label(labels, patch, **_):
    if labels.get("seen") != labels["toy"]:
        patch.metadata.labels["seen"] = labels["toy"]


@kopf.daemon(*TOYS, cancellation_timeout=2)
async def accompany(stopped, patch, **_):
    patch.status["accompanied"] = True
    await asyncio.sleep(0)
    await stopped.wait()
