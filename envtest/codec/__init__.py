"""Decoding of built-in bodies with the semantics of Go's decoders, and Go's formats of values in messages.

Code here depends on the generated data only. Rules of kinds belong to ``groups``.
"""
