"""Speed as ratios in one run against a named baseline; scripts, never timed tests."""
