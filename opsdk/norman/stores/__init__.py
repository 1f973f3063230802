"""Stores of the objects of schemas.

Contains stores and their wrappers. Not here: HTTP (`opsdk.norman.server`), the forms of objects
(`opsdk.norman.mappers`).
"""
