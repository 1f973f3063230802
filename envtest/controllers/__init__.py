"""Simulated controllers: what a cluster does besides serving objects. Small loops, each switchable by name.

Each has a pure core (objects in, wanted writes out) and a thin shell (a `SimulatedController`). They read the
server's storage and write by requests, as the real ones do: admission, managedFields and subresources hold for them.

Modules are named as kube-controller-manager's controllers. Rules that hold for every writer belong to ``groups``.
"""
