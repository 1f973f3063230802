"""Measures the source tree against the project's limits, and prints one line per measure.

usage: python tools/house.py [--check] [--list MEASURE]

``--check`` exits with 1 when a measure is over its limit; ``--list`` prints what a measure counts. Generated kinds
(``opsdk/api``) are left out everywhere.
"""

from __future__ import annotations

import argparse
import ast
import gc
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("opsdk", "envtest", "benchmarks")
PROGRAMS = frozenset(["benchmarks"])
"""Packages that nothing imports, so that their names are not a second home of a library's names."""
GENERATED = Path("opsdk/api")
VAGUE = frozenset(
    [
        "asked",
        "at",
        "found",
        "given",
        "kept",
        "known",
        "left",
        "made",
        "mine",
        "named",
        "said",
        "seen",
        "shown",
        "told",
        "wanted",
        "why",
    ]
)
"""Names that say nothing of what a local holds."""

NAMED_TUPLE = frozenset(["_asdict", "_fields", "_make", "_replace"])
"""Public names of named tuples, in spite of their underscore."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Finding:
    """One counted place."""

    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A figure, its limit, and how to count it.

    Attributes:
        limit: the largest figure allowed; None where the figure is only printed.
        scale: turns the number of findings into the figure.
    """

    name: str
    limit: float | None
    count: Callable[[House], list[Finding]]
    scale: Callable[[House, int], float] = lambda _, findings: findings
    unit: str = ""


@dataclass
class Module:
    """One source file; `path` is relative to the root of the project."""

    name: str
    path: Path
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, in the order of `ast.walk`, without contexts and operators, which have no fields."""
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    nodes += [each for each in value if isinstance(each, ast.AST) and each._fields]
                elif isinstance(value, ast.AST) and value._fields:
                    nodes.append(value)
        return nodes

    @cached_property
    def imports(self) -> list[tuple[ast.Import | ast.ImportFrom, str]]:
        """Every import, with the name of its module."""
        found: list[tuple[ast.Import | ast.ImportFrom, str]] = []
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                found.append((node, node.module))
            elif isinstance(node, ast.Import):
                found.append((node, node.names[0].name))
        return found

    @cached_property
    def functions(self) -> list[FunctionNode]:
        """Every function and method, nested ones too."""
        return [node for node in self.nodes if isinstance(node, FunctionNode)]

    @cached_property
    def code_lines(self) -> int:
        """Lines that hold a token, docstrings left out."""
        docstrings: set[int] = set()
        # A string of several lines may have empty ones, and ones that look like comments.
        strings: set[int] = set()
        for node in self.nodes:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                docstrings.update(_lines(node))
            elif isinstance(node, ast.Constant | ast.JoinedStr):
                strings.update(_lines(node))
        texts = enumerate(map(str.strip, self.text.splitlines()), start=1)
        return len(({line for line, text in texts if text and text[0] != "#"} | strings) - docstrings)

    def find(self, node: ast.AST, what: str) -> Finding:
        """A finding at `node`."""
        return Finding(f"{self.path}:{getattr(node, 'lineno', 1)}", what)


def _lines(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


class House:
    """All modules of the project."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        paths = [path.relative_to(root) for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
        self.modules = [self._module(path) for path in paths if GENERATED not in path.parents]

    def _module(self, path: Path) -> Module:
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        return Module(name, path, (self.root / path).read_text(encoding="utf-8"))

    @cached_property
    def tests(self) -> list[Module]:
        """All files below ``tests``."""
        return [self._module(path.relative_to(self.root)) for path in sorted((self.root / "tests").rglob("*.py"))]

    @cached_property
    def code_lines(self) -> int:
        """Code lines of all modules."""
        return sum(module.code_lines for module in self.modules)

    @cached_property
    def functions(self) -> int:
        """Functions and methods of all modules."""
        return sum(len(module.functions) for module in self.modules)


def classes_with_two_homes(house: House) -> list[Finding]:
    """Public class names that two or more modules define, among the libraries or among the programs."""
    homes: dict[tuple[bool, str], list[tuple[Module, ast.ClassDef]]] = defaultdict(list)
    for module in house.modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[module.path.parts[0] in PROGRAMS, node.name].append((module, node))
    shared = {name: places for (_, name), places in homes.items() if len(places) > 1}
    return [
        places[0][0].find(places[0][1], f"{name}: {', '.join(module.name for module, _ in places)}")
        for name, places in sorted(shared.items())
    ]


def any_annotations(house: House) -> list[Finding]:
    """Each use of ``Any``, imports left out."""
    return [
        module.find(node, "Any")
        for module in house.modules
        for node in module.nodes
        if isinstance(node, ast.Name) and node.id == "Any"
    ]


def vague_locals(house: House) -> list[Finding]:
    """Assignments to names in `VAGUE`; class attributes and globals count too."""
    return _vague_names(house.modules)


def vague_locals_of_tests(house: House) -> list[Finding]:
    """The same in tests."""
    return _vague_names(house.tests)


def one_word_tests(house: House) -> list[Finding]:
    """Tests whose name is one word, which states no law."""
    return [
        module.find(node, node.name)
        for module in house.tests
        for node in module.functions
        if node.name.startswith("test_") and node.name.count("_") == 1
    ]


def private_attributes_of_tests(house: House) -> list[Finding]:
    """Attributes of other objects in tests that begin with an underscore."""
    return [
        module.find(node, node.attr)
        for module in house.tests
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in NAMED_TUPLE
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]


def _vague_names(modules: Iterable[Module]) -> list[Finding]:
    return [
        module.find(node, node.id)
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
    ]


def late_libraries() -> frozenset[str]:
    """Return the libraries that `pyproject.toml` bans from the top of modules; it has the reason for all of them."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    return frozenset(lint["flake8-tidy-imports"]["banned-module-level-imports"])


def lazy_imports(house: House) -> list[Finding]:
    """Imports inside functions without a comment that gives the reason, on the line, above it or at the start."""
    findings = []
    late = late_libraries()
    for module in house.modules:
        lines = module.text.splitlines()
        for node, target in module.imports:
            if not node.col_offset or not any(node.lineno in _lines(function) for function in module.functions):
                continue
            if target.split(".")[0] in late:
                continue
            nearby = lines[node.lineno - 2 : node.lineno]
            reasons = [line.split("#", 1)[1] for line in nearby if "#" in line]
            if not any(reason.split("noqa: PLC0415")[-1].strip(" -") for reason in reasons):
                findings.append(module.find(node, target))
    return findings


def own_type_checking_imports(house: House) -> list[Finding]:
    """Imports of our own modules under ``if TYPE_CHECKING`` without a comment on that line that gives the reason."""
    return [
        module.find(node, target)
        for module in house.modules
        for block in module.nodes
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        if "#" not in module.text.splitlines()[block.lineno - 1]
        for node, target in module.imports
        if node.lineno in _lines(block) and target.split(".")[0] in PACKAGES
    ]


def largest_folder(house: House) -> list[Finding]:
    """The modules of the folder that has most of them."""
    folders: dict[Path, list[Module]] = defaultdict(list)
    for module in house.modules:
        folders[module.path.parent].append(module)
    largest = max(folders.values(), key=len)
    return [module.find(module.tree, module.name) for module in largest]


def modules_without_tests(house: House) -> list[Finding]:
    """Modules that no test file imports or mirrors; most of them are tested through the server that they belong to."""
    tests = house.root / "tests"
    imported = {
        name
        for module in house.tests
        for node, target in module.imports
        for name in (target, *(f"{target}.{alias.name}" for alias in node.names if isinstance(node, ast.ImportFrom)))
    }
    named = {path.relative_to(tests).with_suffix("") for path in tests.rglob("test_*.py")}
    findings = []
    for module in house.modules:
        if module.path.name in {"__init__.py", "__main__.py"}:
            continue
        parts = module.path.with_suffix("").parts
        mirror = Path(*(parts[1:-1] if parts[0] == "opsdk" else parts[:-1]), f"test_{parts[-1]}")
        if mirror not in named and module.name not in imported:
            findings.append(module.find(module.tree, module.name))
    return findings


def long_files(house: House) -> list[Finding]:
    """Files of more than 700 lines."""
    return [m.find(m.tree, f"{n} lines") for m in house.modules if (n := m.text.count("\n")) > 700]


def long_functions(house: House) -> list[Finding]:
    """Functions of more than 60 lines."""
    return [
        module.find(node, f"{node.name}: {length} lines")
        for module in house.modules
        for node in module.functions
        if (length := (node.end_lineno or 0) - node.lineno + 1) > 60
    ]


MEASURES = (
    Measure(name="class names with two homes", limit=12, count=classes_with_two_homes),
    Measure(
        name="Any per 1,000 code lines",
        limit=12,
        count=any_annotations,
        scale=lambda house, findings: 1000 * findings / house.code_lines,
    ),
    Measure(name="vague locals", limit=23, count=vague_locals),
    Measure(name="vague locals of tests", limit=7, count=vague_locals_of_tests),
    Measure(name="one-word tests", limit=15, count=one_word_tests),
    Measure(name="private attributes of others in tests", limit=59, count=private_attributes_of_tests),
    Measure(name="lazy imports without a reason", limit=0, count=lazy_imports),
    Measure(name="own imports under TYPE_CHECKING without a reason", limit=0, count=own_type_checking_imports),
    Measure(name="modules in the largest folder", limit=39, count=largest_folder),
    Measure(name="modules without test file", limit=None, count=modules_without_tests),
    Measure(name="files over 700 lines", limit=0, count=long_files),
    Measure(name="functions over 60 lines", limit=0, count=long_functions),
)


def main() -> int:
    """Print the measures; see the module docstring."""
    parser = argparse.ArgumentParser(description="Measure the source tree against the project's limits.")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a measure is over its limit")
    parser.add_argument("--list", metavar="MEASURE", help="print what the measures with this in their name count")
    arguments = parser.parse_args()
    gc.disable()  # the trees stay to the end, so there is nothing to collect
    house = House()
    over = 0
    print(f"{len(house.modules)} modules, {house.code_lines} code lines, {house.functions} functions")
    for measure in MEASURES:
        findings = measure.count(house)
        figure = measure.scale(house, len(findings))
        exceeded = measure.limit is not None and figure > measure.limit
        over += exceeded
        limit = "" if measure.limit is None else f" (at most {measure.limit:g})"
        print(f"{'!' if exceeded else ' '} {measure.name}: {figure:.4g}{measure.unit}{limit}")
        if arguments.list and arguments.list in measure.name:
            for finding in findings:
                print(f"    {finding.where}: {finding.what}")
    return 1 if arguments.check and over else 0


if __name__ == "__main__":
    sys.exit(main())
