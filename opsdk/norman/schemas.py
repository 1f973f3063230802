"""All schemas of an API, with imports.

Upstream: github.com/rancher/norman/types/schemas.go, types/reflection.go, types/factory/schemas.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from opsdk.apimachinery.meta import ObjectMeta
from opsdk.norman.importing.classes import ClassImporter
from opsdk.norman.importing.definitions import Definition, import_definition
from opsdk.norman.importing.registration import Customize
from opsdk.norman.mappers.kubernetes import MetadataMapper, ObjectMapper
from opsdk.norman.mappers.moves import RenameReference
from opsdk.norman.model import Mapper
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion

__all__ = ["NormanSchemas"]


class NormanSchemas(SchemaRegistry):
    """A registry that imports classes and definitions. Its methods return the registry, so that calls can be chained.

    >>> from opsdk.apimachinery.gvk import GroupVersionKind
    >>> from opsdk.apimachinery.model import Model
    >>> from opsdk.apimachinery.object import Object
    >>> from opsdk.norman.mappers.moves import Drop, Move
    >>> from opsdk.norman.model import Schema
    >>> from opsdk.norman.schema_parts import Action
    >>> class CatalogSpec(Model):
    ...     catalog_url: str
    ...     secret: str = ""
    >>> class Catalog(Object[CatalogSpec, None]):
    ...     gvk = GroupVersionKind("example.com", "v3", "Catalog")
    >>> def add_actions(schema: Schema) -> None:
    ...     schema.resource_actions["refresh"] = Action(input="", output="catalog")
    >>> v3 = ApiVersion(group="example.com", version="v3", path="/v3")
    >>> schemas = (
    ...     NormanSchemas.for_kubernetes(v3)
    ...     .add_mapper_for(v3, Catalog, Move(source="catalogUrl", to="url"), Drop(field="secret"))
    ...     .import_class(v3, Catalog, add_actions)
    ... )
    >>> catalog = schemas.schema(v3, "catalogs")
    >>> [name in catalog.resource_fields for name in ("url", "catalogUrl", "secret", "spec")]
    [True, False, False, False]
    """

    def __init__(self) -> None:
        super().__init__()
        self.importer = ClassImporter(self)

    @classmethod
    def for_kubernetes(cls, *versions: ApiVersion) -> Self:
        """Return a registry with the mappers for objects of Kubernetes.

        They are `ObjectMapper` for each kind, `RenameReference`, and `MetadataMapper` in the given versions.
        """
        schemas = cls()
        schemas.default_mappers = lambda: (ObjectMapper(),)
        schemas.default_post_mappers = lambda: (RenameReference(),)
        for version in versions:
            schemas.add_mapper_for(version, ObjectMeta, MetadataMapper())
        return schemas

    def init(self, function: Callable[[Self], object]) -> Self:
        """Call a function with the registry, such as one that imports the schemas of a part of the program."""
        function(self)
        return self

    def type_name(self, cls: type, schema_id: str) -> Self:
        """Set the id of the schema of a class; by default it is the name of the class in lower case."""
        self.importer.type_name(cls, schema_id)
        return self

    def add_mapper_for(self, version: ApiVersion, cls: type, *mappers: Mapper) -> Self:
        """Add mappers for a class that is imported later. They run in this order from the internal form.

        Raises:
            UsageError: the class is already imported, perhaps as the type of a field.
        """
        self.add_mapper(version, self.importer.schema_id(cls), *mappers)
        return self

    def import_class(
        self,
        version: ApiVersion,
        cls: type,
        customize: Customize | None = None,
        *,
        overrides: Sequence[type] = (),
        root: bool | None = None,
    ) -> Self:
        """Import a class and the classes of its fields.

        Args:
            version: of the schemas.
            cls: a dataclass, msgspec struct, TypedDict or pydantic model.
            customize: gets the schema after the import: for actions, handlers and stores.
            overrides: classes with fields that the external schema has too, or instead.
            root: the objects are resources, with GET, POST, PUT and DELETE; the default is True for Kubernetes kinds.

        Raises:
            UsageError: a type has no schema, another class has the id, or a mapper needs a field that is missing.
        """
        self.importer.import_class(version, cls, customize, overrides=overrides, root=root)
        return self

    def import_definition(
        self,
        version: ApiVersion,
        definition: Definition,
        customize: Customize | None = None,
        *,
        schema_id: str = "",
    ) -> Self:
        """Import the kind of a CustomResourceDefinition, see `opsdk.norman.importing.definitions.import_definition`.

        Raises:
            UsageError: no version is served, an id is taken, or a mapper needs a field that is missing.
        """
        import_definition(self, version, definition, customize, schema_id=schema_id)
        return self
