"""Structural schemas of CustomResourceDefinitions: pruning, defaulting, validation.

Pure: a schema is compiled once and then applied to JSON trees. Rules are CEL and load lazily.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema (v1.36).
"""
