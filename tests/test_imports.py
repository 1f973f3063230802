"""Laws of imports: no cycles, and heavy libraries only where they are needed."""

from __future__ import annotations

import subprocess
import sys

import grimp
import pytest


def import_cycles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return the strongly connected components of more than one module (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

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
            cycle = []
            while not cycle or cycle[-1] != module:
                cycle.append(stack.pop())
            if len(cycle) > 1:
                cycles.append(sorted(cycle))

    for module in sorted(graph.modules):
        if module not in number:
            visit(module)
    return cycles


def test_no_import_cycles() -> None:
    """Imports inside functions and for type checkers count too."""
    assert import_cycles(grimp.build_graph("opsdk", "envtest")) == []


# Libraries that only some operators and servers use, and that take long to import.
HEAVY = {
    "cryptography",
    "httpx",
    "jwt",
    "re2",
    "rich",
    "sqlite3",
    "typer",
    "uvloop",
    "watchfiles",
}
# What an operator does not need before it runs, or at all: other products, debug pages, messages, pages of metrics.
UNUSED = {
    "argparse",
    "difflib",
    "envtest",
    "http.server",
    "opsdk.apiserver",
    "opsdk.builder.election",
    "opsdk.children.applier",
    "opsdk.cli",
    "opsdk.client.recorder.recorder",
    "opsdk.engine",
    "opsdk.fleet",
    "opsdk.http.server.server",
    "opsdk.lifecycle",
    "opsdk.migration",
    "opsdk.monitoring",
    "opsdk.norman",
    "opsdk.rbac.review",
    "opsdk.recording.process",
    "opsdk.testing",
    "opsdk.verification",
    "pickle",
    "prometheus_client",
    "tempfile",
    "tracemalloc",
    "yaml",
}


def loaded(statement: str) -> set[str]:
    """Return the modules after a statement in a fresh interpreter."""
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return set(process.stdout.split())


@pytest.mark.parametrize("statement", ["from opsdk import Operator", "import envtest.__main__"])
def test_heavy_libraries_are_imported_where_they_are_needed(statement: str) -> None:
    """A plain operator and a plain server import no library that only some of them need."""
    assert loaded(statement) & HEAVY == set()


@pytest.mark.parametrize(
    ("statement", "limit"),
    [
        ("from opsdk import Client, load_config", 52),
        ("from opsdk import Cluster", 170),
        ("from opsdk import Operator", 300),
    ],
)
def test_a_process_starts_light(statement: str, limit: int) -> None:
    """A client, a cluster and an operator load few modules, and none of a part that they do not use."""
    names = loaded(statement)
    assert names & UNUSED == set()
    assert len([name for name in names if name.split(".")[0] == "opsdk"]) <= limit


def test_the_package_alone_imports_no_other_module() -> None:
    """``import opsdk`` is part of every import of a module of it, also in the server and the command."""
    assert {name for name in loaded("import opsdk") if name.split(".")[0] == "opsdk"} == {"opsdk"}
