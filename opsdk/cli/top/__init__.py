"""``opsdk top``: a live console over the debug pages of an operator."""
