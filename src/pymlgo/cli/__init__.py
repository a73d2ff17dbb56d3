"""The command mlgo: one file a verb, no logic that the API lacks."""
