"""Tables of evidence and verdict: every check judged with numbers, on both sides of its thresholds, without training.

One file per stage and kind of evidence; `tests/test_verdicts.py` runs them all.
"""
