"""Reloads: the newest code runs, nothing is listed again, and a mistake costs nothing."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from envtest import Environment
from opsdk import Cluster, ObjectMeta, Operator, Unstructured
from opsdk.api.core.v1 import ConfigMap
from opsdk.cli.dev.console import render, view_of
from opsdk.cli.dev.reload import imported_again, modules_below
from opsdk.cli.dev.session import DevSession
from opsdk.cli.loading import load_operator
from opsdk.errors import InvalidError, UsageError
from opsdk.testing.eventually import eventually

SOURCE = """
import asyncio

from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap


class SiteSpec(Model):
    text: str = "a"


class Site(Object[SiteSpec, None]):
    gvk = GroupVersionKind("dev.opsdk.dev", "v1", "Site")


operator = Operator("site")


@operator.reconciler(Site, owns=[ConfigMap])
async def reconcile(site: Site, ctx: Context) -> None:
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": site.spec.text + "1"}))
"""


FAILING = """
class Fails:
    async def start(self):
        raise ValueError('broken')


@operator.setup
def add(operator):
    operator.cluster.cache.index_field(Site, "text", lambda site: [site.spec.text])
    operator.manager.add(Fails())
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that can be changed; it is forgotten at the end."""
    path = tmp_path / "dev_site.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield path
    sys.modules.pop("dev_site", None)


def rewrite(module: Path, *changes: tuple[str, str], more: str = "") -> None:
    """Write the module with changes."""
    source = SOURCE + more
    for old, new in changes:
        source = source.replace(old, new)
    module.write_text(source)


def loader(module: Path) -> Callable[[], Operator]:
    """Return what imports the operator again."""

    def load() -> Operator:
        with imported_again(module.parent):
            return load_operator("dev_site:operator")

    return load


async def test_requests_without_a_permission_are_named(module: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The local server allows them: the log says once what a cluster refuses, at which line, and what to add."""
    async with Environment() as env, Cluster(env.config) as cluster, DevSession(env.config, loader(module)) as session:
        await session.reload()
        for name in "ab":
            meta = {"name": name, "namespace": "default"}
            tree = {"apiVersion": "dev.opsdk.dev/v1", "kind": "Site", "metadata": meta, "spec": {}}
            await cluster.uncached.create(Unstructured.from_tree(tree))
            await eventually(lambda name=name: cluster.uncached.get(ConfigMap, f"default/{name}"))
    (line,) = [each.getMessage() for each in caplog.records if "no rbac= declares" in each.getMessage()]
    assert line.startswith("no rbac= declares create configmaps")
    assert f"({module}:21)" in line
    assert "Add applies(...) of opsdk.rbac.rules for configmaps to the reconciler" in line


async def test_the_newest_code_runs(module: Path) -> None:
    """New code, a new field with its definition, and a mistake: the children follow, from the same informers."""
    async with Environment() as env, Cluster(env.config) as cluster, DevSession(env.config, loader(module)) as session:
        client = cluster.uncached

        async def text_is(text: str) -> bool:
            return (await client.get(ConfigMap, "default/a")).data == {"text": text}

        first = await session.reload()
        assert (first.error, first.definitions) == (None, ("sites.dev.opsdk.dev",))
        assert str(first).startswith("started in ")
        tree = {"apiVersion": "dev.opsdk.dev/v1", "kind": "Site", "metadata": {"name": "a", "namespace": "default"}}
        await client.create(Unstructured.from_tree({**tree, "spec": {}}))
        await eventually(lambda: text_is("a1"))
        assert session.cluster is not None
        lists = sum(health.lists for health in session.cluster.cache.health())

        rewrite(module, ('text + "1"', 'text + "2"'))
        assert (await session.reload()).error is None
        await eventually(lambda: text_is("a2"))
        assert sum(health.lists for health in session.cluster.cache.health()) == lists

        rewrite(module, more="\nx = (\n")
        broken = await session.reload()
        assert "dev_site.py:23: '(' was never closed" in str(broken)
        assert str(broken).startswith("the previous version keeps running: ")
        await client.delete(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await eventually(lambda: text_is("a2"))

        field = '    text: str = "a"\n'
        rewrite(module, (field, f"{field}    size: int = 7\n"), ('text + "1"', "text + str(site.spec.size)"))
        assert (await session.reload()).definitions == ("sites.dev.opsdk.dev",)
        await eventually(lambda: text_is("a7"))
        assert session.reloads == 3


POLICY = """
from opsdk.webhook.policies import AdmissionRule, policy


@policy(Site)
class Texts:
    rules = [AdmissionRule("object.spec.text != 'bad'", message="bad text")]


operator.add_policy(Texts)
"""


async def test_the_newest_policies_hold(module: Path) -> None:
    """A reload applies new policies, and deletes those that the code no longer has; a wrong one changes nothing."""
    site = {"apiVersion": "dev.opsdk.dev/v1", "kind": "Site", "metadata": {"name": "a", "namespace": "default"}}
    bad = {**site, "spec": {"text": "bad"}}
    async with Environment() as env, Cluster(env.config) as cluster:
        rewrite(module, more=POLICY)
        session = DevSession(env.config, loader(module))
        assert (await session.reload()).error is None
        with pytest.raises(InvalidError, match="bad text"):
            await cluster.uncached.create(Unstructured.from_tree(bad))
        rewrite(module, more=POLICY.replace("object.spec.text", "object.spec.test"))
        assert "undefined field 'test'" in str((await session.reload()).error)
        with pytest.raises(InvalidError, match="bad text"):
            await cluster.uncached.create(Unstructured.from_tree(bad))
        rewrite(module)
        assert (await session.reload()).error is None
        await cluster.uncached.create(Unstructured.from_tree(bad))
        await session.aclose()


async def test_an_operator_that_failed_starts_again(module: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A failed operator is reported, starts at the next reload, and its setup functions get a new cluster."""
    rewrite(module, more=FAILING)
    async with Environment() as env, DevSession(env.config, loader(module)) as session:
        await session.reload()
        await eventually(lambda: session.failure is not None)
        assert "change a file to restart it: broken" in caplog.text
        rewrite(module, ("raise ValueError('broken')", "await asyncio.sleep(1e9)"), more=FAILING)
        assert (await session.reload()).error is None
        await asyncio.sleep(5)
        assert session.failure is None


async def test_an_operator_that_ends_at_once_is_not_shown_as_started(module: Path) -> None:
    """The reload says that it ended, and why."""
    rewrite(module, more=FAILING)
    async with Environment() as env, DevSession(env.config, loader(module)) as session:
        ended = await session.reload()
        assert ended.ended
        assert str(ended).startswith("the operator stopped after ")
        assert str(ended).endswith("change a file to restart it: broken")


async def test_a_setup_function_that_fails_keeps_the_old_code_running(module: Path) -> None:
    """The error has its place; the old cluster and its informers go on, and a mended file is loaded."""
    setup = (
        "\n@operator.setup\ndef add(operator):\n    operator.cluster.cache.index_field(Site, 'text', lambda s: [])\n"
    )
    rewrite(module, more=setup)
    async with Environment() as env, Cluster(env.config) as cluster, DevSession(env.config, loader(module)) as session:
        assert (await session.reload()).error is None
        before = session.cluster
        rewrite(module, more=f"{setup}    1 / 0\n")
        broken = await session.reload()
        assert str(broken).startswith("the previous version keeps running: ")
        assert "dev_site.py:26: ZeroDivisionError: division by zero" in str(broken)
        assert session.cluster is before
        tree = {"apiVersion": "dev.opsdk.dev/v1", "kind": "Site", "metadata": {"name": "a", "namespace": "default"}}
        await cluster.uncached.create(Unstructured.from_tree({**tree, "spec": {}}))
        await eventually(lambda: cluster.uncached.get(ConfigMap, "default/a"))
        rewrite(module, more=setup)
        assert (await session.reload()).error is None
        assert session.cluster is not before


async def test_a_reconcile_that_hangs_does_not_stop_a_reload(module: Path) -> None:
    """A reload cancels a hanging reconcile after two seconds."""
    rewrite(module, ("    await ctx.apply", "    await asyncio.sleep(1e9)\n    await ctx.apply"))
    async with Environment() as env, Cluster(env.config) as cluster, DevSession(env.config, loader(module)) as session:
        await session.reload()
        tree = {"apiVersion": "dev.opsdk.dev/v1", "kind": "Site", "metadata": {"name": "a", "namespace": "default"}}
        await cluster.uncached.create(Unstructured.from_tree({**tree, "spec": {}}))
        await asyncio.sleep(1)
        rewrite(module)
        began = asyncio.get_running_loop().time()
        assert (await session.reload()).error is None
        assert asyncio.get_running_loop().time() - began < 10
        await eventually(lambda: cluster.uncached.get(ConfigMap, "default/a"))


async def test_the_screen_has_controllers_informers_and_reconciles(module: Path) -> None:
    """Queues, ages, the last reconciles with causes, and failures in red."""
    async with Environment() as env, Cluster(env.config) as cluster, DevSession(env.config, loader(module)) as session:
        await session.reload()
        tree = {"apiVersion": "dev.opsdk.dev/v1", "kind": "Site", "metadata": {"name": "a", "namespace": "default"}}
        await cluster.uncached.create(Unstructured.from_tree({**tree, "spec": {}}))
        await eventually(lambda: cluster.uncached.get(ConfigMap, "default/a"))
        await asyncio.sleep(5)
        console = Console(width=140, record=True, file=io.StringIO())
        console.print(render(view_of(session.operator, title="opsdk dev", message="reloaded in 0.07 s")))
        lines = console.export_text().splitlines()
    assert lines[:2] == ["opsdk dev", "reloaded in 0.07 s"]
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "site running 0 0" in text
    assert "sites.dev.opsdk.dev current 1" in text
    assert "site default/a Site create default/a at" in text
    assert view_of(None, title="x").controllers == ()


def test_modules_of_virtual_environments_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload imports only the project's modules again, and restores the old ones if that fails."""
    own, foreign = tmp_path / "own_module.py", tmp_path / ".venv/lib/foreign_module.py"
    foreign.parent.mkdir(parents=True)
    for path in (own, foreign):
        path.write_text("value = object()\n")
        monkeypatch.syspath_prepend(str(path.parent))
    try:
        import foreign_module  # type: ignore[import-not-found]
        import own_module  # type: ignore[import-not-found]

        assert set(modules_below(tmp_path)) == {"own_module"}
        with imported_again(tmp_path):
            import own_module as again
        assert again.value is not own_module.value
        own.write_text("raise ValueError\n")
        with pytest.raises(UsageError), imported_again(tmp_path):
            load_operator("own_module:value")
        assert sys.modules["own_module"] is again
        assert sys.modules["foreign_module"] is foreign_module
    finally:
        for name in ("own_module", "foreign_module"):
            sys.modules.pop(name, None)
