"""Exhaustive search: every schedule of a workload up to a bound, where equal states are continued once."""
