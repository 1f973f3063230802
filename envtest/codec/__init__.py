"""Decoding of built-in bodies as Go's decoders do it, and Go's own writing of values in messages.

Here belongs what follows from the generated data alone. Rules of kinds belong to ``groups``.
"""
