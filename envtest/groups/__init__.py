"""Kinds by API group: strategies, validation, defaulting, printers and warnings.

A folder has its name from Kubernetes' ``pkg/apis``; a file is named for its role. Code that groups share belongs to
``core`` (pods and their templates) or ``common``; ``registry`` joins the groups. Decoding belongs to ``codec``.
"""
