"""Problems of the loss, the initialization and the signal through the layers."""
