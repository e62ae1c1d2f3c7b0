"""The engine that fulfils a ``Run``: batches, clipping, noise, the compiled loop."""

from dplateau.training.engine import TrainResult as TrainResult
from dplateau.training.engine import train as train
from dplateau.training.errors import TrainingDiverged as TrainingDiverged
from dplateau.training.errors import TrainingInterrupted as TrainingInterrupted
from dplateau.training.grid import Grid as Grid
from dplateau.training.grid import grid_of as grid_of
from dplateau.training.noise import SecureGenerator as SecureGenerator
from dplateau.training.progress import progress_bar as progress_bar
