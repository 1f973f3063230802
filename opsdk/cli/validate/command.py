"""``opsdk validate``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from opsdk.apiserver.validation import CustomKinds, FieldProblem
from opsdk.cli.loading import load_operator, named_operator
from opsdk.cli.output import Output, OutputFormat, print_result, show_progress
from opsdk.cli.target import KubernetesOption
from opsdk.cli.validate.built_in import built_in_problems, can_validate, gvk_of, is_built_in
from opsdk.cli.validate.documents import SUFFIXES, Document, read_files
from opsdk.engine.environments import local_version
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.configurations import WebhookClientConfig

# The schemas do not depend on the address of the webhooks.
_PLACEHOLDER = WebhookClientConfig(url="https://localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    file: str
    line: int
    object: str
    field: str
    message: str

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}: {self.object}: {field}{self.message}"


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML or JSON files, or folders of them")],
    *,
    old: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the objects before an update, for transition rules")
    ] = None,
    kubernetes: KubernetesOption = None,
    operator: Annotated[
        str, typer.Option(metavar="MODULE:OPERATOR", help="default: the operator in pyproject.toml")
    ] = "",
    output: Output = OutputFormat.TEXT,
) -> None:
    """Validate objects without a cluster: schemas, CEL rules and metadata of custom kinds; built-in kinds.

    The definitions of custom kinds come from the project's operator, if there is one, and from the files. Exits with
    status 1 if an object is invalid. Webhooks are not called. Built-in kinds require opsdk[envtest].

    opsdk validate config/samples

    opsdk validate new.yaml --old old.yaml

    opsdk validate config --kubernetes 1.35
    """
    definitions = load_operator(operator).definitions(_PLACEHOLDER) if named_operator(operator) else []
    documents = list(read_files(files))
    if not documents:
        raise UsageError(f"{', '.join(map(str, files))}: there are no objects in files with {', '.join(SUFFIXES)}")
    before = {_identity(document): document.tree for document in (read_files([old]) if old is not None else ())}
    version = local_version(kubernetes) if can_validate() or kubernetes is not None else ""
    notes: list[str] = []
    findings = list(_findings(documents, before, definitions, version, notes))
    count = f"{len(documents)} objects" if len(documents) != 1 else "1 object"
    lines = [*map(str, findings), *([] if findings else [f"{count} checked, no errors"])]
    print_result(output, [asdict(finding) for finding in findings], lines)
    for note in dict.fromkeys(notes):
        print(f"opsdk: {note}", file=sys.stderr)
    raise typer.Exit(int(bool(findings)))


def _identity(document: Document) -> tuple[str, ...]:
    """Return group, kind, namespace and name. An object keeps them when its version changes."""
    gvk = gvk_of(document.tree)
    metadata = document.tree.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return (gvk.group, gvk.kind, str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def _findings(
    documents: Sequence[Document],
    before: dict[tuple[str, ...], JsonObject],
    definitions: Sequence[JsonObject],
    kubernetes: str,
    notes: list[str],
) -> Iterator[_Finding]:
    """Yield the errors in the order of the objects. `definitions` are those of the operator."""
    own = CustomKinds(definitions).group_kinds
    built_in = [
        document for document in documents if (gvk := gvk_of(document.tree)).group_kind not in own and is_built_in(gvk)
    ]
    problems = _built_in_problems(built_in, before, kubernetes, notes)
    # Those of the operator replace others.
    kinds = CustomKinds([*_valid_definitions(built_in, problems), *definitions])
    for document in documents:
        gvk = gvk_of(document.tree)
        if gvk.group_kind in kinds.group_kinds:
            problems[id(document)] = list(
                kinds.problems(gvk, document.tree, before.get(_identity(document)), notes.append)
            )
        elif not is_built_in(gvk):
            notes.append(
                f"{gvk.api_version} {gvk.kind} is not checked: neither the project nor a file has a valid definition"
            )
    for document in documents:
        repeated = [FieldProblem(field="", message=text) for text in document.repeated]
        for problem in [*repeated, *problems.get(id(document), ())]:
            yield _Finding(
                file=document.file,
                line=document.line(problem.field),
                object=document.subject,
                field=problem.field,
                message=problem.message + _key_advice(problem),
            )


def _key_advice(problem: FieldProblem) -> str:
    """Return why a key is another one than in the file.

    >>> _key_advice(FieldProblem(field="spec.true", message="unknown field"))
    ': YAML reads y, yes and on without quotes as true: quote the key'
    """
    last = problem.field.rpartition(".")[2]
    words = {"true": "y, yes and on", "false": "n, no and off"}.get(last)
    is_unknown = problem.message == "unknown field" and words is not None
    return f": YAML reads {words} without quotes as {last}: quote the key" if is_unknown else ""


def _built_in_problems(
    documents: Sequence[Document], before: dict[tuple[str, ...], JsonObject], kubernetes: str, notes: list[str]
) -> dict[int, list[FieldProblem]]:
    """Return the errors of objects of built-in kinds, by the id of the document. They share one server."""
    if not documents:
        return {}
    if not can_validate():
        notes.append("objects of built-in kinds are not checked: pip install 'opsdk[envtest]'")
        return {}
    trees = [(document.tree, before.get(_identity(document))) for document in documents]

    def progress(checked: int) -> None:
        show_progress(f"{checked} of {len(trees)} objects of built-in kinds are checked")

    results = asyncio.run(built_in_problems(trees, kubernetes=kubernetes, progress=progress))
    show_progress("")
    return {id(document): result for document, result in zip(documents, results, strict=True)}


def _valid_definitions(documents: Sequence[Document], problems: dict[int, list[FieldProblem]]) -> Iterator[JsonObject]:
    """Yield the definitions that the server accepts."""
    for document in documents:
        if document.tree["kind"] == "CustomResourceDefinition" and problems.get(id(document)) == []:
            yield document.tree
