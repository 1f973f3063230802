"""Admission plugins: rules that hold across kinds."""
