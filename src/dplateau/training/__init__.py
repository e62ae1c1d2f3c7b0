"""The engine that fulfils a ``Run``: batches, clipping, noise, the compiled loop."""

from dplateau.spec.missing import explained

with explained():
    from dplateau.progress import progress_bar as progress_bar
    from dplateau.training.cluster import Cluster as Cluster
    from dplateau.training.engine import train as train
    from dplateau.training.errors import ProcessLost as ProcessLost
    from dplateau.training.errors import TrainingDiverged as TrainingDiverged
    from dplateau.training.errors import TrainingInterrupted as TrainingInterrupted
    from dplateau.training.noise import SecureGenerator as SecureGenerator
    from dplateau.training.one_pass import train_one_pass as train_one_pass
    from dplateau.training.result import TrainResult as TrainResult
    from dplateau.training.selection import SelectionResult as SelectionResult
    from dplateau.training.selection import scored as scored
    from dplateau.training.selection import select as select
    from dplateau.training.stream import train_stream as train_stream
