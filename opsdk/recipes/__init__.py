"""Common steps of reconcilers: owner references, finalizers, conditions, create-or-update, apply.

They hold no loops and no state of the cluster; controllers and queues belong elsewhere.
"""
