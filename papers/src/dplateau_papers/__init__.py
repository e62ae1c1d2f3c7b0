"""What the papers print, computed again: a distribution of its own, found by ``dplateau reproduce``."""
