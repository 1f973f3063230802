"""``opsdk doctor`` reports problems of an operator in a cluster; ``opsdk cleanup`` removes its leftovers."""
