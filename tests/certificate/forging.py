"""Forgeries that do not contradict themselves."""

import copy
import json
from dataclasses import replace

from dplateau.certificate import Certificate
from dplateau.spec import Run, Runs


def claiming(data: dict, epsilon: float, lower: float | None = None) -> None:
    """Let a certificate claim another epsilon wherever it names it."""
    ends = [min(epsilon, data["enclosure"][0]) if lower is None else lower, epsilon]
    for row in data["bounds"]:
        if row["name"] == data["bound"]:
            row.update(epsilon=epsilon, enclosure=ends)
    for point in data["curve"]:
        if point["delta"] == data["delta"]:
            point.update(epsilon=ends)
    data.update(epsilon=epsilon, enclosure=ends)


def forged(certificate: Certificate, change) -> Certificate:
    """The certificate after ``change``, with the sentence that follows from its numbers."""
    data = copy.deepcopy(certificate.to_dict())
    change(data)
    run = (Runs if "runs" in data["run"] else Run).from_dict(data["run"])
    data["statement"] = replace(certificate, run=run, epsilon=data["epsilon"], mu=data["mu"]).statement
    return Certificate.from_json(json.dumps(data))
