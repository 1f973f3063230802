"""``opsdk migrate``: turns operators of other frameworks into opsdk operators."""
