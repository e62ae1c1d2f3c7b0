"""Deep learning with Gaussian differential privacy."""
