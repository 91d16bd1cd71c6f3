"""Tools for experiments on a copy: capture, trace, perturb, train briefly."""
