"""Honest measures of a policy: totals, intervals, per program, worst modules, linked size."""
