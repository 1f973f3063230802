"""Changes to the files of a project. Pure: text in, text out."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys

from opsdk.errors import UsageError

_DECLARED = re.compile(r'GroupVersionKind\(\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)"')
# Names in the modules of a new kind (templates.py): classes that they import, and names in lower case.
_IMPORTED = (
    "AdmissionContext", "AdmissionDeniedError", "Client", "Condition", "ConfigMap", "Context", "Environment",
    "GroupVersionKind", "HubSpokeConverter", "Model", "Object", "ObjectMeta", "Operator", "Sequence", "Spoke",
)  # fmt: skip
_LOCAL = (
    "add_to", "applies", "asdict", "assert_condition", "assert_rules", "cause", "check_readiness", "check_round_trip",
    "child", "ctx", "deep_copy", "envtest", "eventually", "field", "from_hub", "invalid_field", "is_ready", "meta",
    "name", "new", "observed", "observed_rules", "old", "operator", "opsdk", "patch", "patches_status", "pytest",
    "reconcile", "running", "set_defaults", "spec", "to_hub", "validate", "validate_update", "webhooks",
)  # fmt: skip
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def package_of(name: str) -> str:
    """Return the package of a project. Raises `UsageError` for a name that Kubernetes or Python refuses."""
    package = name.replace("-", "_")
    if not _DNS_LABEL.fullmatch(name) or not package.isidentifier():
        raise UsageError(
            f"{name!r} is not a valid project name: use lower case letters, digits and -, starting with a letter"
        )
    if package in sys.stdlib_module_names:
        raise UsageError(f"{name!r} is not a valid project name: Python has a module {package}. Choose {name}-operator")
    return package


def module_of(kind: str) -> str:
    """Return the module of a kind, in snake case; `_` follows a name that Python or the module itself has.

    Raises `UsageError` for an invalid kind.

    >>> module_of("HTTPRoute"), module_of("Widget"), module_of("Class")
    ('http_route', 'widget', 'class_')
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{0,62}", kind):
        raise UsageError(f"{kind!r} is not a valid kind: write it in CamelCase, such as Widget")
    module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()
    taken = keyword.iskeyword(module) or hasattr(builtins, module) or module in _LOCAL
    return f"{module}_" if taken else module


def check_new_kind(kind: str) -> None:
    """Raise `UsageError` for a kind that hides a class of opsdk in its new module."""
    if kind in _IMPORTED:
        raise UsageError(f"the new module imports another class {kind}: choose a longer kind, such as My{kind}")


def check_group_version(group: str, version: str) -> None:
    """Raise `UsageError` for a group or a version that the server would refuse."""
    if "." not in group or not all(_DNS_LABEL.fullmatch(part) for part in group.split(".")):
        raise UsageError(f"{group!r} is not a valid API group: write a domain, such as demo.example.com")
    if not re.fullmatch(r"v[0-9]+((alpha|beta)[0-9]+)?", version):
        raise UsageError(f"{version!r} is not a valid version: write v1, v1beta1 or v1alpha1")


def existing_api_advice(source: str, *, group: str, version: str, kind: str) -> str:
    """Return what to do if the module with `source` has the kind already; empty if it does not declare the kind.

    >>> source = 'gvk = GroupVersionKind("demo.example.com", "v1", "Widget")'
    >>> print(existing_api_advice(source, group="demo.example.com", version="v1", kind="Widget"))
    it declares demo.example.com/v1 Widget: change that class
    """
    declared = _DECLARED.findall(source)
    versions = [v for g, v, k in declared if (g, k) == (group, kind)]
    if version in versions:
        return f"it declares {group}/{version} {kind}: change that class"
    if versions:
        return (
            f"it declares {group}/{versions[0]} {kind}. Run opsdk create version --kind {kind} --version {version}: it "
            f'adds a class with `gvk = GroupVersionKind("{group}", "{version}", "{kind}")` and a converter, '
            "`with_converter(...)`. The page Webhooks of the documentation describes it under Conversion"
        )
    if other := [g for g, _, k in declared if k == kind]:
        return f"it declares {kind} of the group {other[0]}: declare {kind} of {group} by hand, in another module"
    return ""


def declared_version(source: str, kind: str) -> tuple[str, str]:
    """Return group and version of a kind that a module declares. Raises `UsageError` if it declares none.

    >>> declared_version('gvk = GroupVersionKind("demo.example.com", "v1", "Widget")', "Widget")
    ('demo.example.com', 'v1')
    """
    for group, version, name in _DECLARED.findall(source):
        if name == kind:
            return group, version
    raise UsageError(f'no class has gvk = GroupVersionKind("...", "...", "{kind}") with texts: declare it like this')


def spoke_class(kind: str, version: str) -> str:
    """Return the name of the class of another version.

    >>> spoke_class("Widget", "v1beta1")
    'WidgetV1Beta1'
    """
    return kind + "".join(part.capitalize() for part in re.findall(r"[a-z]+[0-9]+", version))


def add_module(source: str, package: str, module: str) -> str:
    """Return the source of ``operator.py`` with ``module.add_to(operator)`` before the return of ``make_operator``.

    >>> text = '''from opsdk import Operator
    ...
    ... def make_operator():
    ...     operator = Operator("x")
    ...     return operator
    ... '''
    >>> print(add_module(text, "demo", "widget"), end="")
    from opsdk import Operator
    <BLANKLINE>
    from demo import widget
    <BLANKLINE>
    def make_operator():
        operator = Operator("x")
        widget.add_to(operator)
        return operator

    Raises:
        UsageError: there is no such function; the message says what to add by hand.
    """
    tree = ast.parse(source)
    by_hand = f"add `from {package} import {module}` and `{module}.add_to(operator)` to it"
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "make_operator"), None)
    end = function.body[-1] if function is not None else None
    if not isinstance(end, ast.Return) or not isinstance(end.value, ast.Name):
        raise UsageError(f"operator.py has no function make_operator that ends with `return operator`: {by_hand}")
    lines = source.splitlines()
    lines.insert(end.lineno - 1, f"{' ' * end.col_offset}{module}.add_to({end.value.id})")
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    own = next((n for n in imports if isinstance(n, ast.ImportFrom) and n.module == package and not n.level), None)
    if own is not None:
        names = sorted({*(alias.name for alias in own.names), module})
        lines[own.lineno - 1 : own.end_lineno] = [f"from {package} import {', '.join(names)}"]
    elif imports:
        lines[imports[-1].end_lineno : imports[-1].end_lineno] = ["", f"from {package} import {module}"]
    else:
        raise UsageError(f"operator.py has no imports: {by_hand}")
    return "\n".join(lines) + "\n"
