"""What ``opsdk plan`` reads from the command line: the doubles, and the changes of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.cli.loading import load, place_of
from opsdk.cli.project import find_project
from opsdk.cli.validate.documents import read_files
from opsdk.client.client import Client
from opsdk.engine.doubles import Doubles, DoublesFactory
from opsdk.engine.kubectl_apply import apply_as_kubectl
from opsdk.engine.run import Change
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.errors import OpsdkError, UsageError
from opsdk.structured_merge.value import JsonObject


def load_doubles(reference: str, doubles: str) -> DoublesFactory | None:
    """Return the function that creates the doubles of an operator's external systems; None if it has none.

    Args:
        reference: that names the operator; empty for that of the project.
        doubles: ``MODULE:NAME`` of the function; empty for that of the project.

    Raises:
        UsageError: the function cannot be loaded, or later: it fails, or returns something else.
    """
    doubles = doubles or _doubles_of_project(reference)
    if not doubles:
        return None
    factory = load(doubles, "FUNCTION")

    def checked(snapshot: ClusterSnapshot) -> Doubles[Any]:
        try:
            created = factory(snapshot)
        except OpsdkError:
            raise
        except Exception as error:  # the user's own code may raise anything
            place = place_of(error.__traceback__)
            raise UsageError(f"{doubles!r} fails: {place}{type(error).__name__}: {error}") from error
        if not isinstance(created, Doubles):
            raise UsageError(f"{doubles!r} returns {created!r}: return an opsdk.testing.doubles.Doubles")
        return created

    return checked


def _doubles_of_project(reference: str) -> str:
    """Return the doubles of the project around the current folder, if a reference is that of its operator."""
    project = find_project(Path.cwd())
    return project.doubles if project is not None and reference in ("", project.operator) else ""


# ------------------------------------------------------------------ changes
@dataclass(frozen=True, slots=True, kw_only=True)
class UserChanges:
    """What the user changes, as the command line names it.

    Attributes:
        files: with objects to apply.
        deletions: objects to delete, as ``KIND/NAMESPACE/NAME``.
        scales: objects to scale, as ``KIND/NAMESPACE/NAME=REPLICAS``.
    """

    files: Sequence[Path] = ()
    deletions: Sequence[str] = ()
    scales: Sequence[str] = ()

    def read(self) -> list[Change]:
        """Return the changes. Raises `UsageError`."""
        changes: list[Change] = [_apply(document.tree) for document in read_files(self.files)]
        changes += [_delete(*_reference(text)) for text in self.deletions]
        for text in self.scales:
            reference, _, replicas = text.rpartition("=")
            if not replicas.isdecimal() or not reference:
                raise UsageError(f"--scale is {text!r}: write KIND/NAME=REPLICAS, such as deployments.apps/shop/web=3")
            changes.append(_scale(*_reference(reference), int(replicas)))
        return changes

    @property
    def words(self) -> list[str]:
        """The changes as words of a command line, with absolute paths: another version runs in another folder."""
        words = [word for path in self.files for word in ("--file", str(path.absolute()))]
        words += [word for text in self.deletions for word in ("--delete", text)]
        return words + [word for text in self.scales for word in ("--scale", text)]

    @property
    def kinds(self) -> list[str]:
        """Names of the changed kinds, such as ``deployments.apps`` or ``Site.x.test``."""
        names = [
            f"{document.tree['kind']}.{group}" if group else str(document.tree["kind"])
            for document in read_files(self.files)
            for group in [str(document.tree["apiVersion"]).rpartition("/")[0]]
        ]
        references = [*self.deletions, *(text.rpartition("=")[0] for text in self.scales)]
        return list(dict.fromkeys([*names, *(_reference(text)[0] for text in references)]))


def _reference(text: str) -> tuple[str, str, str]:
    """Return resource, namespace and name of ``websites.example.com/shop/site``, or of ``nodes/a``."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(
            f"{text!r} does not name an object: write KIND/NAMESPACE/NAME, or KIND/NAME without a namespace"
        )
    return (parts[0], parts[1] if len(parts) == 3 else "", parts[-1])


def _apply(tree: JsonObject) -> Change:
    async def change(client: Client) -> None:
        await apply_as_kubectl(client, tree)

    return change


def _delete(resource: str, namespace: str, name: str) -> Change:
    async def change(client: Client) -> None:
        mapping = await client.mapper.kind_for(resource)
        await client.delete(unstructured_kind(mapping.gvk.api_version, mapping.gvk.kind), name, namespace=namespace)

    return change


def _scale(resource: str, namespace: str, name: str, replicas: int) -> Change:
    async def change(client: Client) -> None:
        mapping = await client.mapper.kind_for(resource)
        kind = unstructured_kind(mapping.gvk.api_version, mapping.gvk.kind)
        obj = await client.get(kind, name, namespace=namespace)
        obj["spec"]["replicas"] = replicas
        await client.update(obj)

    return change
