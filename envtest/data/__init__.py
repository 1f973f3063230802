"""The API surface of Kubernetes as data: generated tables (``*.txt``) and the modules that read them.

``make generate`` creates the tables; rules of single kinds belong elsewhere.
"""
