"""Evidence that is worked out from the recording of a real training, so that the checks judge that, too."""
