"""Generates the workload of a verification: custom resources, and operations that change them one field at a time.

Pure: a schema and the author's examples go in, operations come out.
"""
