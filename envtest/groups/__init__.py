"""Kinds by API group: strategies, validation, defaulting, printers and warnings.

A folder is named as in Kubernetes' ``pkg/apis``; a file is named for its role. What is shared by groups belongs to
``core`` (pods and their templates) or ``common``; ``registry`` joins the groups. Decoding belongs to ``codec``.
"""
