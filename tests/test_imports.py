"""The house has no rings: no module, by whatever way round, imports itself."""

from __future__ import annotations

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
