"""Self-contained HTML reports and explanations of decisions."""
