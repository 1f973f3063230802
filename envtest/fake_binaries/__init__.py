"""Programs named ``etcd`` and ``kube-apiserver`` that start this server with the flags of the real ones.

Code that parses those flags belongs here. Code that starts real binaries belongs to ``external``.
"""
