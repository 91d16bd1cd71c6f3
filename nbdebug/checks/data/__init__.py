"""Problems of the data: loading, values, normalization, sampling, targets, splits."""
