"""The recorder of a training: hooks, statistics of samples, and a bounded history; what it means is judged above."""
