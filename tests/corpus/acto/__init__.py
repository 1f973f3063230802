"""Bugs that Acto found (SOSP'23), each as an operator beside its repaired twin. See `tests.corpus.acto.cases`.

What a user changes is that of Acto's inputs; the operators are small models of the mistakes.
"""
