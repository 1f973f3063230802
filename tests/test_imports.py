"""The house has no rings: no module, by whatever way round, imports itself. And what the first import loads."""

from __future__ import annotations

import subprocess
import sys

import grimp


def rings(graph: grimp.ImportGraph) -> list[list[str]]:
    """The groups of modules that import each other in a circle (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in sorted(graph.find_modules_directly_imported_by(module)):
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            ring = []
            while not ring or ring[-1] != module:
                ring.append(stack.pop())
            if len(ring) > 1:
                found.append(sorted(ring))

    for module in sorted(graph.modules):
        if module not in number:
            visit(module)
    return found


def test_no_import_cycles() -> None:
    """Imports inside functions and for type checkers count too."""
    assert rings(grimp.build_graph("opsdk", "envtest")) == []


LOADED = """
import sys
{statement}
from opsdk.loading import _LazyModule
print(*(name for name, module in sys.modules.items() if type(module) is not _LazyModule))
"""
UNUSED = {
    "cachetools",
    "dataclasses",
    "email",
    "html",
    "http",
    "httptools",
    "httpx",
    "importlib.metadata",
    "json",
    "prometheus_client",
    "tempfile",
    "urllib.request",
    "yaml",
    "opsdk.aio.watchdog",
    "opsdk.api.core.v1",
    "opsdk.apimachinery.crd",
    "opsdk.cache.informer",
    "opsdk.children.applier",
    "opsdk.cluster.cluster",
    "opsdk.http",
    "opsdk.leader_election.leader_elector",
    "opsdk.manager.manager",
    "opsdk.rbac.permissions",
    "opsdk.recorder.recorder",
    "opsdk.rest.discovery",
    "opsdk.webhook.configurations",
    "opsdk.webhook.server",
}
"""What an operator declares without."""


def loaded(statement: str) -> set[str]:
    """The modules whose code has run after a statement in a fresh interpreter."""
    program = LOADED.format(statement=statement)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return set(process.stdout.split())


def test_the_four_names_load_little() -> None:
    """A program that declares an operator loads its vocabulary, and nothing that only some operators use."""
    # In Python 3.14 logging loads dataclasses.
    modules = loaded("from opsdk import Operator, Object, Model, Context") - loaded("import logging")
    assert sorted(name for name in modules if name in UNUSED) == []
    assert len([name for name in modules if name.split(".")[0] == "opsdk"]) <= 65


def test_a_server_loads_no_cel_and_no_yaml() -> None:
    """Rules, YAML bodies, certificates, metrics and fault plans are loaded when there are some."""
    unused = {"cryptography", "dateutil", "opsdk.cel.environment", "opsdk.testing.simulation.link", "prometheus_client"}
    modules = loaded("import envtest.__main__")
    assert sorted(name for name in modules if name in {*unused, "yaml", "opsdk.rest.transport"}) == []


def test_a_module_that_is_not_used_does_not_run() -> None:
    """`import opsdk` alone loads a table of names."""
    modules = [name for name in loaded("import opsdk") if name.split(".")[0] == "opsdk"]
    assert sorted(modules) == ["opsdk", "opsdk.loading"]
