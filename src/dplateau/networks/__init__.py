"""Private training of networks, or of any differentiable model: per-example clipping, noise, optimizers, checkpoints."""

from dplateau.spec.missing import explained

with explained():
    from dplateau.networks.checkpoint import Checkpoint as Checkpoint
    from dplateau.networks.engine import NetworkResult as NetworkResult
    from dplateau.networks.engine import train_network as train_network
    from dplateau.networks.optimizers import adagrad_norm as adagrad_norm
    from dplateau.networks.optimizers import noisy_adam as noisy_adam
    from dplateau.networks.optimizers import noisy_sgd as noisy_sgd
    from dplateau.networks.persons import PersonExamples as PersonExamples
    from dplateau.networks.persons import by_person as by_person
    from dplateau.networks.persons import loss_of_person as loss_of_person
    from dplateau.networks.validation import Score as Score
    from dplateau.networks.validation import Validation as Validation
