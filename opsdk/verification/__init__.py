"""Attacks an operator: generated custom resources, and a disturbance at each place of a run."""
