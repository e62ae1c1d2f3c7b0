"""Losses of generalised linear models, with their public constants."""

from dplateau.spec.missing import explained

with explained():
    from dplateau.losses.base import GeneralisedLinearLoss as GeneralisedLinearLoss
    from dplateau.losses.class_weights import ClassWeighted as ClassWeighted
    from dplateau.losses.class_weights import class_weighted as class_weighted
    from dplateau.losses.class_weights import scaled_weights as scaled_weights
    from dplateau.losses.nonsmooth import Absolute as Absolute
    from dplateau.losses.nonsmooth import CornerLoss as CornerLoss
    from dplateau.losses.nonsmooth import Hinge as Hinge
    from dplateau.losses.one_versus_rest import OneVersusRestHinge as OneVersusRestHinge
    from dplateau.losses.scalar import Huber as Huber
    from dplateau.losses.scalar import Logistic as Logistic
    from dplateau.losses.scalar import SmoothedHinge as SmoothedHinge
    from dplateau.losses.scalar import Squared as Squared
    from dplateau.losses.softmax import Softmax as Softmax
