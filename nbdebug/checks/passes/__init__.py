"""Problems of the forward and the backward pass."""
