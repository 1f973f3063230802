"""The Common Expression Language, as Kubernetes speaks it.

``environment`` is the door: an `Environment` knows variables, types and functions; its `compile` gives a `Program`,
which is evaluated as often as needed and says beforehand what it may cost at most.
"""
