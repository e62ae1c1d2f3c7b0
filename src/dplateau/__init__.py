"""dplateau: training with differential privacy, with every epsilon proved and enclosed."""

from dplateau.spec import Run
__version__ = "0.1.0"
