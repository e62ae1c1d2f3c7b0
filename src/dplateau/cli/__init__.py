"""The command line: ``dplateau train``, ``account``, ``calibrate``, ``schema``, ``demo``."""
