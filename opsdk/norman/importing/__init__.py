"""Schemas from Python classes and from OpenAPI.

Contains importers of dataclasses, msgspec structs, TypedDicts, pydantic models and CustomResourceDefinitions, and the
follower of the definitions of a cluster. Not here: mappers (`opsdk.norman.mappers`).

Upstream: github.com/rancher/norman/types/reflection.go (the same task for Go types)
"""
