"""``opsdk verify``: attacks an operator at each place of many short runs."""
