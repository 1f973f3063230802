"""Joins the rooms below into an operator: a few lines from a class to a running program."""
