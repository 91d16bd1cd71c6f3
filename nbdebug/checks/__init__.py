"""One problem, one file: its evidence, the experiment that gathers it, and the check that judges it."""
