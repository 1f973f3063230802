"""Facts that no API server serves, read from the source files of a checkout of Kubernetes.

Only names, types, order and values are taken over: no code, no comments. What is read here is written to
``tools/generate/sources/``, so that everybody can make the tables without a checkout.
"""
