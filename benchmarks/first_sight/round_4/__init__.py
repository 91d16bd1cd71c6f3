"""Programs of one round."""
