"""Workloads like life: neighbours, objects that come late, change and go, and objects of others."""
