"""``opsdk doctor`` and ``opsdk cleanup``: what is wrong around an operator, and what it leaves behind."""
