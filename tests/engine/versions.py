"""Two versions of an operator: the plan of one against the other in this process, and projects on disk for commands."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import envtest
from opsdk import Operator
from opsdk.engine.plan import Plan
from opsdk.engine.plan_difference import subtract_plan
from opsdk.engine.planning import make_plan
from opsdk.engine.run import Change, OperatorRun, RunOutcome
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.rbac.permissions import Permission, RuleSet

ALL = RuleSet([Permission("*", "*", "*")])

GREETER = """\
from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap


class GreetingSpec(Model):
    name: str


class Greeting(Object[GreetingSpec, Model]):
    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Greeting")


operator = Operator("greeter")


@operator.reconciler(Greeting, owns=[ConfigMap])
async def reconcile(greeting: Greeting, ctx: Context) -> None:
    meta = ObjectMeta(name=greeting.metadata.name)
    await ctx.apply(ConfigMap(metadata=meta, data={"text": f"Hello {greeting.spec.name}!"}))
"""
GREETING = """\
apiVersion: demo.opsdk.dev/v1
kind: Greeting
metadata: {name: first, namespace: default}
spec: {name: World}
"""
PROJECT = """\
[project]
name = "greeting-operator"
version = "1.0.0"

[tool.opsdk]
operator = "greeting_operator:operator"
"""
MODULE = "greeting_operator"
_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_METADATA = f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: 1.0.0\n"


def write_project(folder: Path, source: str = GREETER) -> Path:
    """Write a project with one module into a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / f"{MODULE}.py").write_text(source)
    return folder


def write_wheel(folder: Path, source: str = GREETER) -> Path:
    """Write a wheel with one module into a folder, and return its path."""
    path = folder / f"{MODULE}-1.0.0-py3-none-any.whl"
    info = f"{MODULE}-1.0.0.dist-info"
    files = {f"{MODULE}.py": source, f"{info}/METADATA": _METADATA, f"{info}/WHEEL": _WHEEL}
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


# ---------------------------------------------------------------- in this process
def plan_against(
    old: Callable[[ClusterSnapshot], Operator],
    new: Callable[[ClusterSnapshot], Operator],
    snapshot: ClusterSnapshot,
    *,
    changes: Sequence[Change] = (),
) -> Plan:
    """Return the plan of an operator against another one, as ``opsdk plan --against`` makes it from processes.

    Args:
        old: creates the other operator, for a state of the cluster.
        new: creates the operator that is planned.
        snapshot: the state of the cluster.
        changes: of the user.
    """
    return OtherVersion(old, snapshot, changes).plan_of(new)


class OtherVersion:
    """The runs of one operator. Several others are planned against it.

    Args:
        create: creates the operator, for a state of the cluster.
        snapshot: the state of the cluster.
        changes: of the user.
    """

    def __init__(
        self, create: Callable[[ClusterSnapshot], Operator], snapshot: ClusterSnapshot, changes: Sequence[Change] = ()
    ) -> None:
        _, settled = _run(create, snapshot, keep_end=True)
        assert settled.end is not None, settled.failure
        self._end, self._changes = settled.end, changes
        self._plan, _ = _run(create, settled.end, changes)

    def plan_of(self, new: Callable[[ClusterSnapshot], Operator], *, rules: RuleSet = ALL) -> Plan:
        """Return the plan of an operator with some permissions against this one."""
        own, _ = _run(new, self._end, self._changes, rules)
        return subtract_plan(own, self._plan, against="old")


def _run(
    create: Callable[[ClusterSnapshot], Operator],
    snapshot: ClusterSnapshot,
    changes: Sequence[Change] = (),
    rules: RuleSet = ALL,
    *,
    keep_end: bool = False,
) -> tuple[Plan, RunOutcome]:
    operator = create(snapshot)
    run = OperatorRun(
        snapshot=snapshot,
        operator=lambda: operator,
        environment=lambda state: envtest.Environment(controllers="cluster", snapshot=state),
        changes=changes,
        rules=rules,
        keep_end=keep_end,
    )
    outcome = run.execute()
    return make_plan(outcome, operator), outcome
