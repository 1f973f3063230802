"""Simulated controllers of a cluster. Each can be enabled and disabled by name.

Each has a pure core (objects in, writes out) and a thin shell (a `SimulatedController`). They read the storage and
write by requests, so admission, managedFields and subresources apply to them. Modules have the names of
kube-controller-manager's controllers. Rules that apply to every writer belong to ``groups``.
"""
