"""Admission policies: rules in CEL that judge or change requests, bound to what they concern."""
