"""Private stochastic convex optimisation in linear time."""
