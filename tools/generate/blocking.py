"""The blocking forms of async classes: each public method with its signature, without ``await``.

The source of a class is parsed, so its annotations, overloads and comments are copied as they are written. A method
becomes a call of `opsdk.aio.blocking.Waiting`; which one follows from the form of the method and from what it returns.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.generate.header import MARK

_SETTINGS = Path(__file__).parents[2] / "pyproject.toml"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingModule:
    """A generated module.

    Attributes:
        source: the file with the async classes.
        target: the generated file.
        classes: blocking class by async class.
        imports: lines for the classes that methods return.
        left_out: members that functions in threads must not use, because they are not safe there.
        in_thread: plain methods that only compute. Other plain methods run in the event loop, as async ones do.
    """

    source: str
    target: str
    classes: dict[str, str]
    imports: tuple[str, ...] = ()
    left_out: frozenset[str] = field(default_factory=frozenset)
    in_thread: frozenset[str] = field(default_factory=frozenset)


MODULES = (
    BlockingModule(
        source="opsdk/client/client.py",
        target="opsdk/client/generated_blocking.py",
        classes={"Client": "BlockingClientMethods", "SubResourceClient": "BlockingSubResourceClient"},
    ),
    BlockingModule(
        source="opsdk/pods/client.py",
        target="opsdk/pods/generated_blocking.py",
        classes={"PodClient": "BlockingPodClientMethods"},
        left_out=frozenset({"open_exec", "attach", "open_port", "port_forward"}),
    ),
    BlockingModule(
        source="opsdk/controller/context.py",
        target="opsdk/controller/generated_blocking.py",
        classes={"Context": "BlockingContextMethods"},
        imports=(
            "from opsdk.client.blocking import BlockingClient",
            "from opsdk.cluster.blocking import BlockingCluster",
            "from opsdk.controller.blocking_status import BlockingStatusPatch",
        ),
        left_out=frozenset({"recorder", "specs", "progress", "fields"}),
        in_thread=frozenset({"changed", "difference"}),
    ),
)
_FORMS = {
    "Client": "BlockingClient({value}, self._call)",
    "Cluster": "BlockingCluster({value}, self._call)",
    "SubResourceClient": "BlockingSubResourceClient({value}, self._call)",
    "StatusPatch": "BlockingStatusPatch(self.target.client, {arguments}, self._call)",
}
"""How the blocking form of a returned object is created: from the object, or from the method's arguments."""


def render_blocking(root: Path, module: BlockingModule) -> str:
    """Return the text of a generated module of the repository at `root`."""
    text = (root / module.source).read_text()
    tree = ast.parse(text)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in module.classes]
    body = "\n\n".join("\n".join(_Form(text, module, node).lines()) for node in reversed(classes))
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    variables = [
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Assign) and re.search(rf"\b{ast.unparse(node.targets[0])}\b", body)
    ]
    home = module.source.removesuffix(".py").replace("/", ".")
    own = ", ".join(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    lines = [
        f'"""Blocking forms of {", ".join(module.classes)}.\n\n{MARK} from {module.source}; do not edit.\n"""',
        *imports,
        "from collections.abc import Iterator",
        "from contextlib import AbstractContextManager",
        "from typing import Any",
        "from opsdk.aio.blocking import Waiting",
        f"from {home} import {own}",
        *module.imports,
        *variables,
    ]
    return _formatted("\n".join(lines) + "\n\n" + body)


class _Form:
    """The blocking form of one class."""

    def __init__(self, text: str, module: BlockingModule, node: ast.ClassDef) -> None:
        self._source = text.splitlines()
        self._module, self._node = module, node

    def lines(self) -> Iterator[str]:
        """Yield the lines of the class."""
        name = self._node.name
        yield f"class {self._module.classes[name]}(Waiting[{name}]):"
        yield f'    """The methods of `{name}`, which block."""'
        for member in self._node.body:
            if isinstance(member, ast.AnnAssign) and self._is_public(ast.unparse(member.target)):
                attribute = ast.unparse(member.target)
                yield from ("", "    @property", f"    def {attribute}(self) -> {ast.unparse(member.annotation)}:")
                yield from self._body(attribute, f"return self.target.{attribute}")
            elif isinstance(member, _Function) and self._is_public(member.name):
                yield ""
                yield from self._method(member)

    def _is_public(self, name: str) -> bool:
        return not name.startswith("_") and name not in self._module.left_out

    def _method(self, method: _Function) -> Iterator[str]:
        decorators = {ast.unparse(each) for each in method.decorator_list}
        yield from (f"    @{decorator}" for decorator in sorted(decorators))
        is_overload = "overload" in decorators
        end = method.end_lineno if is_overload else method.body[0].lineno - 1
        yield _blocking_header("\n".join(self._source[method.lineno - 1 : end]))
        if not is_overload:
            yield from self._body(method.name, self._call(method, is_property="property" in decorators))

    def _body(self, name: str, statement: str) -> Iterator[str]:
        yield f'        """See `{self._node.name}.{name}`."""'
        yield from (f"        {line}" for line in statement.splitlines())

    def _call(self, method: _Function, *, is_property: bool) -> str:
        """Return the statements that call the async class."""
        value, arguments = f"self.target.{method.name}", _forwarded(method.args)
        called, before = value if is_property else f"{value}({arguments})", ""
        if is_overloaded := self._is_overloaded(method.name):
            # No overload takes all arguments of the implementation.
            called, before = f"method({arguments})", f"method: Any = {value}\n"
        returns = ast.unparse(method.returns) if method.returns else "None"
        head = "" if returns == "None" else "return "
        match returns.partition("[")[0]:
            case form if form in _FORMS:
                return head + _FORMS[form].format(value=called, arguments=arguments)
            case "AbstractAsyncContextManager":
                return f"{head}self._open({called})"
            case "AsyncIterator" | "AsyncGenerator":
                return f"{before}{head}self._iterate({called})"
        if is_property or method.name in self._module.in_thread:
            return head + called
        if isinstance(method, ast.FunctionDef):
            return f"{head}self._call_in_loop({value}, {arguments})"
        if not is_overloaded:
            return f"{head}self._wait({called})"
        result, end = (f"result: {returns} = ", "\nreturn result") if head else ("", "")
        return f"{before}{result}self._wait({called}){end}"

    def _is_overloaded(self, name: str) -> bool:
        return sum(isinstance(each, _Function) and each.name == name for each in self._node.body) > 1


def _forwarded(arguments: ast.arguments) -> str:
    """Return the arguments of a call that passes on all parameters but ``self``."""
    words = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1:]
    words += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    words += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    words += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(words)


def _blocking_header(header: str) -> str:
    """Return the header of a method without ``async``, whose result is the blocking form."""
    signature, arrow, returns = header.replace("async def", "def", 1).rpartition("->")
    # A function that is not async needs no exemption from the rules for async ones.
    signature = re.sub(r"  # noqa: ASYNC\d+\b.*", "", signature)
    returns = returns.replace("AbstractAsync", "Abstract").replace("AsyncIterator", "Iterator")
    returns = re.sub(r"AsyncGenerator\[(.+), None\]", r"Iterator[\1]", returns)
    return signature + arrow + re.sub(rf"\b({'|'.join(_FORMS)})\b", r"Blocking\1", returns)


def _formatted(text: str) -> str:
    """Return a module as ruff formats it, with sorted imports and without unused ones."""
    for command in (["check", "--select=I,F401", "--fix"], ["format"]):
        arguments = [sys.executable, "-m", "ruff", *command, "--quiet", f"--config={_SETTINGS}", "-"]
        text = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ruff
    return text
