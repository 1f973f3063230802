"""The root causes of the 46 bugs that Sieve found in ten operators (OSDI 2022), in the order of its table.

See https://github.com/sieve-project/sieve/blob/main/docs/bugs.md. The operators are written anew, after the reports.
"""
