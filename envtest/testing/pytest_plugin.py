"""Pytest fixtures: an API server per test; the start-up cost is paid once per session.

Installed with ``opsdk[envtest]``. Tests are ``async def``, run by ``-p opsdk.testing.plugin``, pytest-asyncio or
anyio. The server is in the test's process, without ports and files, so pytest-xdist can run any number of workers.

A mark sets options of a test: ``@pytest.mark.k8s(controllers="cluster", crd_paths=["config/crd"])``. It accepts the
arguments of `Environment`, and:

- ``faults=[Fail(503)]``: rules for every request of the test's users, or ``(effect, {"verb": "get"})``;
- ``seed=7``: for rules with a probability.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

_VIRTUAL = "opsdk.testing.plugin"
_ENTERED = pytest.StashKey[list[AbstractAsyncContextManager[Any]]]()
_TARGET = pytest.StashKey[Any]()
_NAMESPACE = pytest.StashKey[str]()
_TEMPLATES = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for all tests of a project."""
    parser.getgroup("envtest").addoption(
        "--kubernetes",
        metavar="VERSION",
        help="the version of Kubernetes that the tests' API servers serve, such as 1.36",
    )
    parser.addini("k8s_crd_paths", "files and directories with CustomResourceDefinitions for every test", type="paths")
    parser.addini("k8s_controllers", "which simulated controllers run in every test", default="none")
    parser.addini("k8s_report_requests", "how many requests a failed test shows", default="20")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark ``k8s``."""
    config.addinivalue_line("markers", "realtime: run this async test on an ordinary event loop")
    config.addinivalue_line(
        "markers", "k8s(**options): options of this test's API server, see envtest.testing.pytest_plugin"
    )


# ------------------------------------------------------------------ entering context managers in the test's loop
def _enter(request: pytest.FixtureRequest, context: AbstractAsyncContextManager[Any]) -> None:
    """Enter `context` in the loop of the test, after the contexts of earlier fixtures."""
    node = request.node
    if request.config.pluginmanager.hasplugin(_VIRTUAL) and inspect.iscoroutinefunction(node.obj):
        from opsdk.testing.plugin import loop_of  # noqa: PLC0415 - another plugin may run the tests

        # Now, so that async fixtures can use it.
        loop_of(node).enter(request, context)
        return
    entered = node.stash.get(_ENTERED, None)
    if entered is None:
        function = node.obj
        if not inspect.iscoroutinefunction(function):
            pytest.fail(f"{node.name} uses the fixtures of envtest, so it has to be an async def", pytrace=False)
        entered = node.stash[_ENTERED] = []
        node.obj = _inside(function, entered)
    entered.append(context)


def _inside(function: Callable[..., Any], entered: Sequence[AbstractAsyncContextManager[Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        async with AsyncExitStack() as stack:
            for context in entered:
                await stack.enter_async_context(context)
            return await function(*args, **kwargs)

    return run


# ------------------------------------------------------------------ fixtures
@pytest.fixture
def k8s_env(request: pytest.FixtureRequest) -> Any:
    """The `Environment` of this test, or a `ClusterTarget` on another cluster.

    USE_EXISTING_CLUSTER and KUBEBUILDER_ASSETS select the cluster. A test that needs the embedded server is skipped
    there, with the reason.
    """
    from envtest.external import clusters  # noqa: PLC0415 - every run of pytest loads this module: it must be light

    options: dict[str, Any] = {"controllers": request.config.getini("k8s_controllers")}
    if request.config.getoption("--kubernetes"):
        options["kubernetes"] = request.config.getoption("--kubernetes")
    for mark in reversed(list(request.node.iter_markers("k8s"))):
        options |= mark.kwargs
    paths = [*request.config.getini("k8s_crd_paths"), *(options.get("crd_paths") or ())]
    options["crd_paths"] = [str(path) for path in paths]
    kind = clusters.target_kind()
    if kind is not clusters.TargetKind.EMBEDDED:
        # Other processes do not follow virtual time.
        request.node.add_marker("realtime")
        # Options that other clusters support; any other option skips the test.
        allowed: dict[str, Any] = {name: options[name] for name in ("crds", "crd_paths") if name in options}
        for name, value in options.items():
            if name not in allowed and value not in ("none", None, ()):
                pytest.skip(f"k8s({name}=...) needs the embedded server; this run is on {kind.value}")
        return _templates(request).target(kind, allowed)
    environment = _templates(request).environment(options)
    request.node.stash[_TARGET] = environment
    _enter(request, environment)
    return environment


def _templates(request: pytest.FixtureRequest) -> Any:
    stash = request.config.stash
    templates = stash.get(_TEMPLATES, None)
    if templates is None:
        from envtest.testing.template import Templates  # noqa: PLC0415 - as above

        templates = stash[_TEMPLATES] = Templates()
        request.config.add_cleanup(templates.close)
    return templates


@pytest.fixture
def k8s_config(k8s_env: Any) -> Any:
    """The client configuration of the admin: an `opsdk.rest.config.RestConfig`."""
    return k8s_env.config


@pytest.fixture
def k8s_cluster(request: pytest.FixtureRequest, k8s_env: Any) -> Any:
    """A `Cluster` of the test's server, as its admin."""
    from opsdk.cluster.cluster import Cluster  # noqa: PLC0415 - as above

    cluster = Cluster(k8s_env.config)
    _enter(request, cluster)
    return cluster


@pytest.fixture
def k8s_client(k8s_cluster: Any) -> Any:
    """A `Client` without a cache, as the admin."""
    return k8s_cluster.uncached


@pytest.fixture
def k8s_namespace(request: pytest.FixtureRequest, k8s_env: Any) -> str:
    """The name of a new namespace for this test."""
    # A readable, valid name.
    test = request.node.name
    from uuid import uuid4  # noqa: PLC0415 - as above

    plain = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")
    name = f"{plain[:50].strip('-')}-{uuid4().hex[:8]}"
    request.node.stash[_NAMESPACE] = name
    _enter(request, _with_namespace(k8s_env, name))
    return name


@asynccontextmanager
async def _with_namespace(env: Any, name: str) -> AsyncIterator[None]:
    from opsdk.api.core.v1 import Namespace  # noqa: PLC0415 - as above
    from opsdk.apimachinery.meta import ObjectMeta  # noqa: PLC0415 - as above
    from opsdk.cluster.cluster import Cluster  # noqa: PLC0415 - as above

    async with Cluster(env.config) as cluster:
        namespace = await cluster.uncached.create(Namespace(metadata=ObjectMeta(name=name)))
        try:
            yield
        finally:
            if hasattr(type(env), "kind"):  # an embedded server is discarded with all its objects
                await cluster.uncached.delete(namespace, missing_ok=True)


@pytest.fixture
def k8s_user(k8s_env: Any) -> Any:
    """Create an `AuthenticatedUser`: ``k8s_user("bob", groups=["devs"]).config``."""
    return k8s_env.add_user


# ------------------------------------------------------------------ failures
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """Add the last requests and the objects of the namespace to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    target: Any = item.stash.get(_TARGET, None)
    if call.when != "call" or not report.failed or target is None:
        return
    from envtest.testing import report as texts  # noqa: PLC0415 - as above

    count, namespace = item.config.getini("k8s_report_requests"), item.stash.get(_NAMESPACE, "default")
    for title, text in (
        ("last requests", lambda: texts.requests(target.audit, int(count))),
        (f"objects in {namespace}", lambda: texts.objects(target.plane.storage, namespace)),
    ):
        report.sections.append((f"envtest: {title}", _text_or_reason(text)))


def _text_or_reason(text: Callable[[], str]) -> str:
    """Return a report, or the reason for its absence. An exception would end the session and hide the failure."""
    try:
        return text()
    except Exception as error:  # noqa: BLE001 - the state of the server may be the reason for the test's failure
        return f"this report failed: {type(error).__name__}: {error}"
