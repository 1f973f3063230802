"""Completes the attributes and keywords of the reference: types, defaults, and links from code spans to entries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import griffe

from tools.site.docstrings import classes_of

_SPAN = re.compile(r"(?<![`\[])`(?P<name>[A-Za-z_][\w.]*)(?:\(\))?`(?!`)")
_FENCE = re.compile(r"^ *```")
_SEE = re.compile(r"[Ss]ee `?(\w+)`?(?: for the keywords)?")
_ONLY_SEE = re.compile(r"see (?:<autoref[^>]*>)?`([A-Z]\w+)`(?:</autoref>)?\.?$")
_POINTER = re.compile(r" ?See <autoref[^>]*>`\w+`</autoref> for the keywords\.")
"""A sentence that the table of the keywords replaces."""
_PACKAGES = ("opsdk", "envtest")
EXPLAINED_ON = {
    "envtest.instruments.effect": "envtest/faults.html",
    "opsdk.aio.large_work": "decisions.html",
    "opsdk.aio.randomness": "simulation.html",
    "opsdk.aio.watchdog": "observability.html",
    "opsdk.apimachinery.plurals": "custom-resources.html",
    "opsdk.base.runnable": "architecture.html",
    "opsdk.builder.controller_pauses": "howto/pause.html",
    "opsdk.builder.flags": "reference/flags.html",
    "opsdk.cluster": "reference/cache.html",
    "opsdk.controller": "controllers.html",
    "opsdk.controller.declaration": "controllers.html#what-a-reconciler-takes",
    "opsdk.controller.finalizers": "howto/finalizers.html",
    "opsdk.controller.steps.hot_loops": "observability.html",
    "opsdk.event.event": "howto/mapping.html",
    "opsdk.event.references": "howto/metadata-only.html",
    "opsdk.fleet.outage": "howto/sharding.html",
    "opsdk.fleet.placement": "howto/sharding.html",
    "opsdk.lifecycle.handlers": "howto/lifecycles.html",
    "opsdk.manager.debug": "observability.html#debug-pages",
    "opsdk.manager.leader_election": "howto/leader-election.html",
    "opsdk.manager.metrics_authorization": "howto/metrics-and-health.html",
    "opsdk.manager.process": "howto/deployment.html#graceful-shutdown",
    "opsdk.norman.collections": "howto/norman.html#access",
    "opsdk.norman.type_expression": "howto/norman-schemas.html",
    "opsdk.queue.core": "explanation/queue.html",
    "opsdk.rbac.declared": "rbac.html",
    "opsdk.rest.transport": "howto/leader-election.html",
}
"""Pages that explain modules without an entry in the reference: docstrings name the modules for readers of code."""
_PACKAGE_DEPTH = 2
"""A package of the first level stands for itself, not for its modules."""
_LITERALS = {"True": "bool", "False": "bool"}


class MembersExtension(griffe.Extension):
    """An extension of griffe, which reads the source for mkdocstrings."""

    def __init__(self) -> None:
        self._described: dict[str, dict[str, str]] = {}

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Read what other objects need, after all of a package is read."""
        for cls in classes_of(pkg):
            for attribute in cls.attributes.values():
                if not attribute.is_alias and attribute.annotation is None:
                    attribute.annotation = inferred_type(attribute.value, cls)
        for function in _functions(pkg):
            self._described.update(_described_keywords(function))

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Complete an object; `tools.site.docstrings` has changed its docstring before."""
        known = loader.modules_collection
        if obj.docstring is None:
            return
        obj.docstring.value = linked(obj.docstring.value, obj, known)
        if isinstance(obj, griffe.Function):
            _complete_keywords(obj, self._described, known)
            _complete_parameters(obj, known)
        if isinstance(obj, griffe.Class) and "Attributes:" in obj.docstring.value:
            _complete_attributes(obj, known)


def _functions(parent: griffe.Object) -> Iterator[griffe.Function]:
    for member in parent.members.values():
        if isinstance(member, griffe.Function):
            yield member
        if isinstance(member, griffe.Module | griffe.Class):
            yield from _functions(member)


def inferred_type(value: str | griffe.Expr | None, cls: griffe.Class) -> str | griffe.Expr | None:
    """Return the type of an attribute without annotation: that of its literal, its parameter, or its constructor."""
    if isinstance(value, str):
        if re.fullmatch(r"-?[\d_]+", value):
            return "int"
        if re.fullmatch(r"-?[\d_]*\.[\d_]+", value):
            return "float"
        return _LITERALS.get(value, "str" if value.startswith(("'", '"')) else None)
    if isinstance(value, griffe.ExprName):
        constructor = cls.members.get("__init__")
        if isinstance(constructor, griffe.Function) and value.name in constructor.parameters:
            return constructor.parameters[value.name].annotation
    if isinstance(value, griffe.ExprCall):
        name = value.function.left if isinstance(value.function, griffe.ExprSubscript) else value.function
        if str(name).rpartition(".")[2].lstrip("_")[:1].isupper():
            return value.function
    return None


def default_of(attribute: griffe.Attribute) -> str | griffe.Expr | None:
    """Return the default of a field of a class; None for attributes that instances get, and for members of enums."""
    enum = attribute.parent is not None and any("Enum" in str(base) for base in getattr(attribute.parent, "bases", ()))
    if enum or "class-attribute" not in attribute.labels or "property" in attribute.labels:
        return None
    value = attribute.value
    if isinstance(value, griffe.ExprCall) and str(value.function).rpartition(".")[2] == "field":
        arguments = {a.name: a.value for a in value.arguments if isinstance(a, griffe.ExprKeyword)}
        if "default_factory" in arguments:
            return f"{arguments['default_factory']}()"
        return arguments.get("default")
    return value


def _complete_attributes(cls: griffe.Class, known: griffe.ModulesCollection) -> None:
    """Give each documented attribute a type, also that of a base class or a property, and a field its default."""
    assert cls.docstring is not None
    for section in cls.docstring.parsed:
        if isinstance(section, griffe.DocstringSectionAttributes):
            for item in section.value:
                item.description = followed(item.description, item.name, cls, known)
                member = cls.all_members.get(item.name)
                target = member.final_target if isinstance(member, griffe.Alias) else member
                if isinstance(target, griffe.Attribute):
                    item.annotation = item.annotation or target.annotation
                    item.value = default_of(target)


def _complete_parameters(function: griffe.Function, known: griffe.ModulesCollection) -> None:
    assert function.docstring is not None
    for section in function.docstring.parsed if "Args:" in function.docstring.value else ():
        if section.kind is griffe.DocstringSectionKind.parameters:
            for item in section.value:
                item.description = followed(item.description, item.name, function, known)


def _keywords_class(function: griffe.Function) -> griffe.Expr | None:
    """Return the TypedDict of a function's keywords."""
    for parameter in function.parameters:
        annotation = parameter.annotation
        if parameter.kind is griffe.ParameterKind.var_keyword and isinstance(annotation, griffe.ExprSubscript):
            return annotation.slice if str(annotation.left).endswith("Unpack") else None  # type: ignore[return-value]
    return None


def _described_keywords(function: griffe.Function) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the texts of a function's keywords, with the path of their TypedDict."""
    keywords = _keywords_class(function)
    if keywords is not None and function.docstring is not None and "Keyword Args:" in function.docstring.value:
        for section in function.docstring.parse():
            if section.kind is griffe.DocstringSectionKind.other_parameters:
                yield keywords.canonical_path, {item.name: item.description for item in section.value}


def _complete_keywords(
    function: griffe.Function, described: dict[str, dict[str, str]], known: griffe.ModulesCollection
) -> None:
    """Replace the row of ``**options`` by a table of the keywords: with the texts of `described`, or of their class."""
    keywords = _keywords_class(function)
    if function.docstring is None:
        return
    if keywords is None:
        items = _declared_keywords(function, known)
        if not items:
            return
    else:
        typed_dict = known[keywords.canonical_path]
        options = _options_of(typed_dict, known)
        texts = described.get(keywords.canonical_path) or _texts_of(options)
        items = [
            griffe.DocstringParameter(
                name,
                description=_text_of(name, texts, options or function, known),
                annotation=field.annotation,
                value=default_of(options[name]) if options is not None else empty_value(str(field.annotation)),
            )
            for name, field in typed_dict.attributes.items()
        ]
    sections = function.docstring.parsed
    for section in sections:
        if section.kind is griffe.DocstringSectionKind.text:
            section.value = _POINTER.sub("", section.value)
        if section.kind is griffe.DocstringSectionKind.parameters:
            section.value[:] = [item for item in section.value if f"**{item.name}" not in _variadic(function)]
    others = [s for s in sections if s.kind is not griffe.DocstringSectionKind.other_parameters]
    others = [s for s in others if s.kind is not griffe.DocstringSectionKind.parameters or s.value]
    raises = (i for i, s in enumerate(others) if s.kind is griffe.DocstringSectionKind.raises)
    others.insert(next(raises, len(others)), griffe.DocstringSectionOtherParameters(items, title="Keywords:"))
    sections[:] = others


def _options_of(obj: griffe.Object, known: griffe.ModulesCollection) -> griffe.Object | None:
    """Return the class to which a docstring refers for keywords: that of the same fields, with their texts."""
    see = _SEE.search(re.sub(r"</?\w[^>]*>", "", obj.docstring.value)) if obj.docstring else None
    path = path_of(see[1], obj, known) if see else ""
    return known[path] if path else None


def _declared_keywords(function: griffe.Function, known: griffe.ModulesCollection) -> list[griffe.DocstringParameter]:
    """Return the keywords of a function whose docstring says where they are described."""
    if function.docstring is None or "for the keywords" not in function.docstring.value:
        return []
    options = _options_of(function, known)
    if not isinstance(options, griffe.Class):
        return []
    texts = _texts_of(options)
    return [
        griffe.DocstringParameter(
            p.name, description=_text_of(p.name, texts, options, known), annotation=p.annotation, value=p.default
        )
        for p in function.parameters
        if p.name in texts
    ]


def _variadic(function: griffe.Function) -> set[str]:
    return {f"**{p.name}" for p in function.parameters if p.kind is griffe.ParameterKind.var_keyword}


def _texts_of(options: griffe.Object | None) -> dict[str, str]:
    """Return the texts of a class's attributes."""
    sections = options.docstring.parse() if options is not None and options.docstring is not None else []
    return {
        item.name: item.description
        for section in sections
        if isinstance(section, griffe.DocstringSectionAttributes)
        for item in section.value
    }


def empty_value(annotation: str) -> str:
    """Return the default of a keyword that may be left out: the empty value of its type.

    >>> [empty_value(text) for text in ("Sequence[str]", "Mapping[str, int]", "str", "bool", "int | None")]
    ['()', '{}', '""', 'False', 'None']
    """
    if annotation.endswith("| None"):
        return "None"
    return {"Sequence": "()", "Mapping": "{}", "bool": "False", "str": '""'}[annotation.partition("[")[0]]


def _text_of(name: str, texts: dict[str, str], obj: griffe.Object, known: griffe.ModulesCollection) -> str:
    return followed(linked(texts.get(name, ""), obj, known), name, obj, known)


def followed(text: str, name: str, obj: griffe.Object, known: griffe.ModulesCollection) -> str:
    """Return the text of an attribute; that of the class to which it only refers, as ``see `ReadOptions`.`` does."""
    reference = _ONLY_SEE.match(text)
    path = path_of(reference[1], obj, known) if reference else ""
    if not path or not isinstance(known[path], griffe.Class):
        return text
    texts = _texts_of(known[path])
    return _text_of(name, texts, known[path], known) if name in texts else text


def linked(text: str, obj: griffe.Object, known: griffe.ModulesCollection) -> str:
    """Return a docstring whose code spans link to the entry of the name, if there is one.

    Names are those of the docstring's module and class, or full paths; a parameter's name is no link.
    """
    lines, in_fence = [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_fence = not in_fence
        lines.append(line if in_fence else _SPAN.sub(lambda span: _link(span, obj, known), line))
    return "\n".join(lines)


def _link(span: re.Match[str], obj: griffe.Object, known: griffe.ModulesCollection) -> str:
    if (page := page_of(span["name"])) is not None:
        return f'<a href="../{page}">{span[0]}</a>'
    path = path_of(span["name"], obj, known)
    return f'<autoref identifier="{path}" optional>{span[0]}</autoref>' if path else span[0]


def page_of(name: str) -> str | None:
    """Return the page that explains a name without an entry in the reference.

    >>> page_of("opsdk.builder.flags.parse_flags"), page_of("opsdk.errors")
    ('reference/flags.html', None)
    """
    while name not in EXPLAINED_ON and name.count(".") > _PACKAGE_DEPTH:
        name = name.rpartition(".")[0]
    return EXPLAINED_ON.get(name)


@lru_cache(maxsize=4)
def _classes_by_name(known: griffe.ModulesCollection, packages: tuple[str, ...]) -> dict[str, str]:
    """Return the classes whose name no other class has: docstrings may name what their module does not import."""
    counted = Counter[str]()
    paths = {}
    for package in packages:
        for cls in classes_of(known[package]):
            counted[cls.name] += 1
            paths[cls.name] = str(cls.path)
    return {name: path for name, path in paths.items() if counted[name] == 1}


def path_of(name: str, obj: griffe.Object, known: griffe.ModulesCollection) -> str:
    """Return the path where a name in a docstring is defined; empty if it needs no link.

    A parameter needs none, nor does a member of the class of the docstring that a table describes.
    """
    first, _, rest = name.partition(".")
    if first in _PACKAGES:
        if first not in known:  # another package is read later
            return name
    elif isinstance(obj, griffe.Function) and first in obj.parameters:
        return ""
    try:
        start = first if first in _PACKAGES else obj.resolve(first)
        found = known[f"{start}.{rest}" if rest else start]
        if isinstance(found, griffe.Alias):
            found = found.final_target
    except (KeyError, griffe.GriffeError):
        return _classes_by_name(known, tuple(known.members)).get(name, "")
    if isinstance(found, griffe.Module) and first not in _PACKAGES:
        return ""
    if isinstance(found, griffe.Attribute) and found.docstring is None and isinstance(found.parent, griffe.Class):
        found = found.parent
        if found in (obj, obj.parent):
            return ""
    return "" if found is obj else str(found.canonical_path)
