"""Privacy of the last iterate of noisy SGD."""
