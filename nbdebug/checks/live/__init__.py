"""Problems of a training run that is watched, on one process or many."""
