"""Mappers: between the objects of Kubernetes and those of a Norman API.

Contains the mappers of norman, their helpers and the type mapper. Not here: importers of schemas
(`opsdk.norman.importing`). All mappers are pure: they change an object or a schema in place, and do no I/O.

*Outward* means from the internal form to the external one (`from_internal`), *inward* the reverse (`to_internal`).

A mapper that stores data of its schema (such as `Embed`) belongs to one schema. The importer copies the mappers that
`add_mapper` got, so that one instance may be added for several schemas.

Names: `ApiGroupMapper`, `ChangeTypeMapper`, `ConditionMapper`, `EnumMapper`, `MetadataMapper`, `ObjectMapper` and
`ScopeMapper` have a suffix that norman's names lack, because Kubernetes or Python has another thing of that name.

Upstream: github.com/rancher/norman/types/mapper
"""
