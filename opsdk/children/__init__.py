"""Declared children: objects that a reconciler describes, and that are written only if they differ.

Here belong the comparison of a live object with a desired one (pure), the reasons of writes, and the `Applier` that
reads, applies and prunes. Owner references and other recipes belong to `opsdk.recipes`.
"""
