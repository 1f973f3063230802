"""The corpus: published bugs of operators, each as an operator of a few lines beside its repaired twin."""
