"""Differential privacy guarantees of Langevin dynamics."""
