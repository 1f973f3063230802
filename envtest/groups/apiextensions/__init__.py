"""The group apiextensions: what tables show of CustomResourceDefinitions.

The definitions themselves belong to `envtest.extensions`.
"""
