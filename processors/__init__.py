"""The processors: the events topic into the canonical change log, exactly once."""
