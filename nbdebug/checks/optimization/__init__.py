"""Problems of the training step, the optimizer and short training runs."""
