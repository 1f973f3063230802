"""Admission plugins about Kubernetes' own kinds, as kube-apiserver runs them."""
