"""Change data capture for Kubernetes: the contract, and the reading of the canonical change log."""
