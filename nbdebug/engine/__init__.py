"""Run the checks in the order of the decision tree, and tell causes from symptoms."""
