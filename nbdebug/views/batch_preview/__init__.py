"""Looking at batches: from the tensors that a network receives to what a person can see of them."""
