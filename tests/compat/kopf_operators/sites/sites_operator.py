"""A kopf operator of the usual shape: a Deployment and a Service for each site, with the official client."""

import kopf
from kubernetes import client, config

GROUP = "migrate.test"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False
    settings.persistence.finalizer = f"{GROUP}/sites"


@kopf.on.login()
def login(**kwargs):
    """Use the kubeconfig alone."""
    return kopf.login_with_kubeconfig(**kwargs)


def api():
    config.load_kube_config()
    return client.ApiClient()


def deployment_of(name, spec):
    # One container is enough.
    labels = {"site": name}
    container = {"name": "web", "image": spec.get("image", "nginx")}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@kopf.on.create(GROUP, "v1", "sites")
def create_deployment(spec, name, namespace, logger, **kwargs):
    if spec["replicas"] > 50:
        raise kopf.PermanentError("too many replicas")
    body = deployment_of(name, spec)
    kopf.adopt(body)
    with api() as api_client:
        deployment = client.AppsV1Api(api_client).create_namespaced_deployment(namespace, body)
    logger.info("created %s", deployment.metadata.name)
    return {"deployment": deployment.metadata.name}


@kopf.on.create(GROUP, "v1", "sites", retries=5, backoff=1)
async def create_service(name, namespace, retry, meta, patch, **_):
    """Create the Service at the second attempt."""
    if retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.5)
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": dict(meta.labels)},
        "spec": {"selector": {"site": name}, "ports": [{"port": 80}]},
    }
    kopf.adopt(body)
    with api() as api_client:
        client.CoreV1Api(api_client).create_namespaced_service(namespace, body)
    patch.status["service"] = name


@kopf.on.field(GROUP, "v1", "sites", field="spec.replicas", old=kopf.PRESENT)
def scale(old, new, name, namespace, patch, **_):
    with api() as api_client:
        client.AppsV1Api(api_client).patch_namespaced_deployment(name, namespace, {"spec": {"replicas": new}})
    patch.status["scaled"] = f"{old} -> {new}"


@kopf.on.resume(GROUP, "v1", "sites", labels={"watched": "yes"})
@kopf.on.create(GROUP, "v1", "sites", labels={"watched": "yes"})
def mark(patch, **_):
    patch.status["marked"] = True


@kopf.timer(GROUP, "v1", "sites", interval=2, initial_delay=1)
def check(spec, patch, status, **_):
    if status.get("checked") != spec["replicas"]:
        patch.status["checked"] = spec["replicas"]


@kopf.on.delete(GROUP, "v1", "sites")
def say_goodbye(name, logger, **_):
    logger.info("%s is gone", name)
