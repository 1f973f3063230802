"""Structural schemas: what a CustomResourceDefinition says of its objects, and doing what it says.

Pure: a schema is compiled once, then prunes, defaults and validates trees. Serving, storing and CEL rules are
elsewhere; rules come in as a callable.
"""
