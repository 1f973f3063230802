"""Programs named ``etcd`` and ``kube-apiserver`` that start this server with the flags of the real ones."""
