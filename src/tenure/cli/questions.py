"""`tenure what-if` and `tenure next-preempted`: what people ask of a scheduler, at any instant."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli import options

At = Annotated[str, typer.Option("--at", metavar="T", help="A duration after the start (20h), or a date.")]


def what_if(
    scenario: options.Scenario,
    *,
    at: At,
    job: Annotated[
        str, typer.Option("--job", metavar="'{…}'", help="{account: vision, gpus: 8, min_runtime: 2h, …}")
    ],
    policy: options.PolicyName = None,
    set_: options.Set = None,
    seed: options.Seed = None,
    json: options.Json = None,
) -> None:
    """Would this job start if it were submitted at T?

    If not: when, what stands in its way, and what would change it.
    """
    from tenure.cli import answers, screen
    from tenure.service import questions

    results = screen.Results(json, inputs=(scenario,))
    with screen.progress() as moved:
        answer = questions.what_if(
            scenario,
            at=at,
            job=job,
            chosen=questions.Chosen(policy, options.assignments(set_), seed),
            progress=moved,
        )
    screen.warn(answer["warnings"])
    results.give(answer, lambda console: answers.what_if(console, answer))


def next_preempted(
    scenario: options.Scenario,
    *,
    at: At,
    policy: options.PolicyName = None,
    set_: options.Set = None,
    seed: options.Seed = None,
    json: options.Json = None,
) -> None:
    """Who would be stopped next at T: for whom, from when on, by which rule."""
    from tenure.cli import answers, screen
    from tenure.service import questions

    results = screen.Results(json, inputs=(scenario,))
    with screen.progress() as moved:
        answer = questions.next_preempted(
            scenario, at=at, chosen=questions.Chosen(policy, options.assignments(set_), seed), progress=moved
        )
    screen.warn(answer["warnings"])
    results.give(answer, lambda console: answers.next_preempted(console, answer))
