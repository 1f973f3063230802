"""Programs named ``etcd`` and ``kube-apiserver`` that start this server with the flags of the real ones.

Here belongs what reads those flags. What starts real binaries belongs to ``external``.
"""
