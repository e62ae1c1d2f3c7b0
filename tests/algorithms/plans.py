"""Plans from one set of keywords: tests change one of them at a time."""

from dataclasses import fields

from dplateau.algorithms import Budget, Problem


def planned(plan, **facts):
    """``plan(problem, budget, ...)`` from the fields of both, and from what options the plan has of its own."""
    parts = ({field.name: facts.pop(field.name) for field in fields(kind) if field.name in facts} for kind in (Problem, Budget))
    problem, budget = parts
    return plan(Problem(**problem), Budget(**budget), **facts)
