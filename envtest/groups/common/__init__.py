"""Code of several groups: the base strategy, field rules, selectors, printing.

Rules of one group belong to its folder; rules of pods and pod templates belong to ``core``.
"""
