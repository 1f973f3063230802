"""Books, served by a server behind kube-apiserver."""
