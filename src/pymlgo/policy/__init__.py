"""Policies: a small typed graph, its numpy interpreter (the oracle), and the policy directory."""
