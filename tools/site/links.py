"""Links from the names in the text of a page to their entries in the reference."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

_ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
_KEPT = re.compile(r"(<pre.*?</pre>|<a .*?</a>|<autoref .*?</autoref>|<h[1-6].*?</h[1-6]>)", re.DOTALL)
_CODE = re.compile(r"<code>(?P<name>[A-Za-z_][\w.]*)(?P<rest>\([^<]*\))?</code>")


def targets_of(reference: Path) -> dict[str, str]:
    """Return the entries of the reference by the name that a text uses.

    Names of one lower-case word are left out, because texts use them with other meanings; so are names of two modules.
    """
    entries = [name for page in sorted(reference.glob("*.md")) for name in _ENTRY.findall(page.read_text())]
    targets: dict[str, str] = {}
    ambiguous: set[str] = set()
    for entry in entries:
        targets[entry] = entry
        names = [entry, *(f"{entry}.{name}" for name in _public_names(entry))]
        for path in names:
            name = path.rpartition(".")[2]
            if targets.setdefault(name, path) != path:
                ambiguous.add(name)
            targets[path] = path
    return {name: path for name, path in targets.items() if name not in ambiguous and not re.fullmatch("[a-z]+", name)}


def _public_names(module: str) -> list[str]:
    """Return ``__all__`` of a module without importing it; nothing for a class or a function."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # the parent is a module, not a package
        return []
    if spec is None or spec.origin is None:
        return []
    for statement in ast.parse(Path(spec.origin).read_text()).body:
        if isinstance(statement, ast.Assign) and [getattr(t, "id", "") for t in statement.targets] == ["__all__"]:
            return list(ast.literal_eval(statement.value))
    return []


def link_names(html: str, targets: Mapping[str, str]) -> str:
    """Return a page whose first code span of each name links to the name's entry; headings and code blocks stay.

    >>> link_names("<p><code>Result(error=e)</code> or <code>Result</code>.</p>", {"Result": "opsdk.Result"})
    '<p><autoref identifier="opsdk.Result" optional><code>Result(error=e)</code></autoref> or <code>Result</code>.</p>'
    """
    seen: set[str] = set()

    def link(code: re.Match[str]) -> str:
        path = targets.get(code["name"])
        if path is None or path in seen:
            return code[0]
        seen.add(path)
        return f'<autoref identifier="{path}" optional>{code[0]}</autoref>'

    parts = _KEPT.split(html)
    return "".join(part if index % 2 else _CODE.sub(link, part) for index, part in enumerate(parts))
