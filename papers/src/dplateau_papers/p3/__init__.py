"""Noise adapted to the step size."""
