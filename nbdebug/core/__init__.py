"""The words that all parts share: findings, remedies, registered checks and probes, cancellation, the journal."""
