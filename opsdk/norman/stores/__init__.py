"""Stores: where the objects of schemas are.

Here belong stores and their wrappers. Not here: HTTP (`opsdk.norman.server`), the forms of objects
(`opsdk.norman.mappers`).
"""
