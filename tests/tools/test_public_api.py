"""The public names of each product: a list that is generated, limits, and one page for each product."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import FunctionType

import pytest

from tools.generate.public_api import LIST, Product, public_names, read_products, render_public_api

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = read_products(ROOT)
MODULES = [module for product in PRODUCTS for module in product.modules]


@pytest.mark.slow
def test_the_list_is_as_generated() -> None:
    """A change of a public name or of its signature changes the committed list."""
    assert (ROOT / LIST).read_text() == render_public_api(ROOT, PRODUCTS), "run `make generate`"


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_a_product_has_at_most_as_many_public_names_as_its_limit(product: Product) -> None:
    """The limit falls with the number of names; a little room stays, so that one more name raises no limit."""
    names = public_names(ROOT, product)
    assert product.limit - 10 <= len(names) < product.limit
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_a_product_has_a_page_and_a_make_verb(product: Product) -> None:
    """The page says what the product is; the verb runs its tests alone."""
    page = (ROOT / product.page).read_text()
    assert f"make test-{product.name}" in page
    assert f"\ntest-{product.name}:" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("module", MODULES)
def test_a_public_module_exports_what_it_lists(module: str) -> None:
    """Each name of ``__all__`` can be imported."""
    imported = importlib.import_module(module)
    assert [name for name in imported.__all__ if not hasattr(imported, name)] == []


def _methods_of_protocols() -> set[str]:
    """The names of the methods that a Protocol of the repository describes."""
    return {
        member.name
        for package in ("opsdk", "envtest")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
        for member in node.body
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(member)
    }


@pytest.mark.slow
def test_each_public_name_says_what_it_is() -> None:
    """Functions, classes and their methods. A base class or a Protocol describes the methods that implement it."""
    described = _methods_of_protocols()
    silent = []
    for module in MODULES:
        imported = importlib.import_module(module)
        for name in imported.__all__:
            value = getattr(imported, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            if not inspect.getdoc(value):
                silent.append(f"{module}.{name}")
            methods = vars(value) if inspect.isclass(value) else {}
            silent += [
                f"{module}.{name}.{method}"
                for method, function in methods.items()
                if not method.startswith("_")
                and isinstance(function, FunctionType | property | classmethod | staticmethod)
                and not inspect.getdoc(getattr(value, method))
                and method not in described
            ]
    assert silent == []


def test_a_struct_shows_the_fields_of_its_bases(tmp_path: Path) -> None:
    """Inherited fields come first; a field that a class defines again has its own default."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "base.py").write_text(
        "import msgspec\n"
        "class Base(msgspec.Struct, frozen=True):\n    a: int\n    b: str = 'x'\n    limit: ClassVar[int] = 1\n"
    )
    (tmp_path / "pkg" / "inner.py").write_text(
        "from pkg.base import Base\n"
        "__all__ = ['Own', 'Plain']\n"
        "class Own(Base, frozen=True):\n    c: int = 0\n    b: str = 'y'\n"
        "class Plain(Base): ...\n"
    )
    product = Product(name="one", limit=9, page="", modules=("pkg.inner",))
    assert render_public_api(tmp_path, [product]).splitlines()[6:] == [
        "class pkg.inner.Own(a: int, b: str = 'y', c: int = 0)",
        "class pkg.inner.Plain(Base)",
    ]


def test_a_class_shows_the_methods_of_bases_that_the_list_does_not_have(tmp_path: Path) -> None:
    """A method that the class defines again has one line, and a public base shows its methods itself."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "base.py").write_text(
        "class Base:\n    def a(self) -> int: ...\n    def b(self) -> int: ...\n    def _c(self) -> int: ...\n"
    )
    (tmp_path / "pkg" / "inner.py").write_text(
        "from pkg.base import Base\n"
        "__all__ = ['Own', 'Derived']\n"
        "class Own(Base):\n    def b(self) -> str: ...\n"
        "class Derived(Own): ...\n"
    )
    product = Product(name="one", limit=9, page="", modules=("pkg.inner",))
    assert render_public_api(tmp_path, [product]).splitlines()[6:] == [
        "class pkg.inner.Derived(Own)",
        "class pkg.inner.Own(Base)",
        "    b() -> str",
        "    a() -> int",
    ]


def test_a_signature_and_an_alias_have_one_line_each(tmp_path: Path) -> None:
    """A function shows its arguments; a name that another public module defines shows where."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from pkg.inner import f\n__all__ = ['f']\n")
    (tmp_path / "pkg" / "inner.py").write_text(
        "__all__ = ['C', 'f']\n"
        "def f(a: int, *, b: str = 'x') -> None: ...\n"
        "class C:\n    def m(self, n: int) -> int: ...\n"
    )
    product = Product(name="one", limit=9, page="", modules=("pkg", "pkg.inner"))
    lines = render_public_api(tmp_path, [product]).splitlines()
    assert lines[4:] == [
        "# one: 2 names",
        "",
        "pkg.f = pkg.inner.f",
        "class pkg.inner.C()",
        "    m(n: int) -> int",
        "pkg.inner.f(a: int, *, b: str='x') -> None",
    ]


def test_a_name_that_two_modules_export_from_a_third_counts_once(tmp_path: Path) -> None:
    """The module that defines the name may be private: the last public module in the list is its home."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from pkg.area import f\n__all__ = ['f']\n")
    (tmp_path / "pkg" / "area.py").write_text("from pkg.inner import f\n__all__ = ['f']\n")
    (tmp_path / "pkg" / "inner.py").write_text("def f(a: int) -> None: ...\n")
    product = Product(name="one", limit=9, page="", modules=("pkg", "pkg.area"))
    assert public_names(tmp_path, product) == ["pkg.area.f"]
    assert render_public_api(tmp_path, [product]).splitlines()[4:] == [
        "# one: 1 names",
        "",
        "pkg.f = pkg.area.f",
        "pkg.area.f(a: int) -> None",
    ]


def test_a_hook_can_grow() -> None:
    """A public hook is a class whose methods do nothing, so that a later event breaks no hook of an author."""
    hooks = {
        f"{module}.{name}": getattr(importlib.import_module(module), name)
        for module in MODULES
        for name in importlib.import_module(module).__all__
        if name.endswith(("Hook", "Hooks"))
    }
    assert "opsdk.telemetry.records.QueueHooks" in hooks
    assert [
        name for name, hook in hooks.items() if getattr(hook, "_is_protocol", False) or inspect.isabstract(hook)
    ] == []


@pytest.mark.slow
def test_a_definition_is_public_in_one_product_only() -> None:
    """Each product counts its own names."""
    homes = [name for product in PRODUCTS for name in public_names(ROOT, product)]
    assert len(set(homes)) == len(homes)
