"""The storage on etcd v3: options, client, values, watches, storage, compactor.

It needs the extra ``etcd`` and is imported only where it is used.

Upstream: k8s.io/apiserver/pkg/storage/etcd3 (v1.36).
"""
