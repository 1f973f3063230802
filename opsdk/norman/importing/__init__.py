"""Schemas from Python classes and from OpenAPI.

Here belong what reads dataclasses, msgspec structs, TypedDicts and pydantic models, what reads
CustomResourceDefinitions, and what follows the definitions of a cluster. Not here: mappers (`opsdk.norman.mappers`).

Upstream: github.com/rancher/norman/types/reflection.go (the same task for Go types)
"""
