"""Kinds by API group: strategies, validation, defaulting, printers and warnings.

A folder is named after Kubernetes' ``pkg/apis``, a file after its role. Code that groups share belongs to
``core`` (pods and their templates) or ``common``; ``registry`` joins the groups. Decoding belongs to ``codec``.
"""
