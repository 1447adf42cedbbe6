"""A researcher's day: submit, queue, show, why, cancel, hold, release, stop, logs."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from tenure.cli import options
from tenure.cli.server import Url, client

WATCH_EVERY_S = 2.0
PAGE = 200  #: jobs of a queue that a terminal gets unasked

Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, or an array's.")]
Reason = Annotated[str, typer.Option("--reason", metavar="WORDS", help="Why: it is recorded.")]
Watch = Annotated[bool, typer.Option("--watch", help="Refresh in place every two seconds, until Ctrl-C.")]

Account = Annotated[str | None, typer.Option("--account", "-A", metavar="PATH", help="Who is charged.")]
Gpus = Annotated[int | None, typer.Option("--gpus", "-g", metavar="N", help="GPUs held while it runs.")]
MinRuntime = Annotated[
    str | None,
    typer.Option(
        "--min-runtime", metavar="2h", help="Shortest useful run: protected, charged; 0: unbudgeted."
    ),
]
MaxRuntime = Annotated[
    str | None, typer.Option("--max-runtime", metavar="8h", help="Ended as timed_out after so long.")
]
Resumable = Annotated[
    bool | None, typer.Option("--resumable/--not-resumable", help="Stopped, it is queued again by itself.")
]
Priority = Annotated[int | None, typer.Option("--priority", metavar="N", help="Order inside its account.")]
Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="batch, debug or session.")]
Clusters = Annotated[
    list[str] | None, typer.Option("--cluster", metavar="NAME", help="Where it may run. Repeatable.")
]
Gpu = Annotated[str | None, typer.Option("--gpu", metavar="TYPE", help="The type it needs.")]
SameRack = Annotated[bool, typer.Option("--same-rack", help="All its nodes in one rack.")]


def job_keys(**given: Any) -> dict[str, Any]:
    """The keys of a job that were given."""
    return {key: value for key, value in given.items() if value not in (None, [], False, "")}


def submit(
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND…", help="What runs.")] = None,
    *,
    account: Account = None,
    gpus: Gpus = None,
    min_runtime: MinRuntime = None,
    max_runtime: MaxRuntime = None,
    resumable: Resumable = None,
    priority: Priority = None,
    kind: Kind = None,
    cluster: Clusters = None,
    gpu: Gpu = None,
    same_rack: SameRack = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What people call it.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="A variable for it; without a value: yours. Repeatable."),
    ] = None,
    workdir: Annotated[str | None, typer.Option(metavar="PATH", help="Where it runs; default: here.")] = None,
    array: Annotated[
        str | None, typer.Option(metavar="0-9%2", help="So many jobs, numbered; two of them at once.")
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB[:ok|:any]", help="Only after that job ended (well). Repeatable."),
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Do not consider it before it is released.")] = False,
    checkpoint_every: Annotated[
        str | None, typer.Option(metavar="30m", help="How often it saves by itself; 0: never.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Your own name of this submission: twice is once.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="The receipt and why, without submitting.")
    ] = False,
    url: Url = None,
    json: options.Json = None,
) -> None:
    """Submit a job and print its receipt: what its minimum costs, what it buys, and the wait foreseen."""
    from tenure.cli import screen, tables_of_jobs

    if account is None or gpus is None:
        raise typer.BadParameter("--account and --gpus are needed", param_hint="submit")
    if not command and not dry_run:
        raise typer.BadParameter("what runs? … -- COMMAND", param_hint="-- COMMAND")
    asked = job_keys(
        min_runtime=min_runtime, max_runtime=max_runtime, priority=priority, kind=kind, clusters=cluster,
        gpu=gpu, same_rack=same_rack, name=name, env=variables(env), array=array, after=after, hold=hold,
        checkpoint_every=checkpoint_every,
    )  # fmt: skip
    asked |= {"account": account, "gpus": gpus, "workdir": workdir or os.getcwd()}
    asked |= {"resumable": resumable} if resumable is not None else {}
    asked |= {"command": command} if command else {}
    results = screen.Results(json)
    with client(url) as lab:
        if dry_run:
            foreseen = lab.why_if(**asked)
            screen.warn(foreseen.warnings)
            results.give(foreseen.model_dump(), lambda console: tables_of_jobs.foreseen(console, foreseen))
            return
        told = lab.submit(key=key, **asked)
    screen.warn(told.warnings)
    results.give(told.model_dump(), lambda console: tables_of_jobs.submitted(console, told))


def variables(texts: list[str] | None) -> dict[str, str]:
    """`["A=1", "HOME"]` → `{"A": "1", "HOME": "/home/ann"}`."""
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or (not equals and name not in os.environ):
            raise typer.BadParameter(f"{text!r}: NAME=VALUE, or a variable that is set", param_hint="--env")
        found[name] = value if equals else os.environ[name]
    return found


def queue(
    *,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="waiting, running, stopping, ended or all.")
    ] = None,
    account: Annotated[str | None, typer.Option("--account", "-A", metavar="PATH")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="NAME")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME")] = None,
    every: Annotated[bool, typer.Option("--all", help=f"All jobs, not the first {PAGE}.")] = False,
    watch: Watch = False,
    url: Url = None,
    json: options.Json = None,
) -> None:
    """What waits and runs, and why each job waits."""
    from tenure.cli import screen, tables_of_jobs

    results = screen.Results(json)
    limit = 100_000 if every or json is not None else PAGE
    with client(url) as lab:

        def ask() -> Any:
            return lab.queue(state=state, user=user, account=account, cluster=cluster, limit=limit)

        if watch:
            screen.watch(lambda console: tables_of_jobs.queue(console, ask()), WATCH_EVERY_S)
            return
        told = ask()
    results.give(told.model_dump(), lambda console: tables_of_jobs.queue(console, told))


def show(job: Job, *, watch: Watch = False, url: Url = None, json: options.Json = None) -> None:
    """All that may be seen of a job: what it asks for, its attempts, its story; of an array, its jobs."""
    from tenure.cli import screen, tables_of_jobs

    results = screen.Results(json)
    with client(url) as lab:
        if watch:

            def again(console: Any) -> None:
                told = lab.show(job)
                tables_of_jobs.show(console, told, [] if told.elements else lab.events(job))

            screen.watch(again, WATCH_EVERY_S)
            return
        told = lab.show(job)
        story = [] if results.json_alone or told.elements else lab.events(job)
    results.give(told.model_dump(), lambda console: tables_of_jobs.show(console, told, story))


def why(
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Or ask about a job by its flags.")] = None,
    *,
    account: Account = None,
    gpus: Gpus = None,
    min_runtime: MinRuntime = None,
    max_runtime: MaxRuntime = None,
    priority: Priority = None,
    kind: Kind = None,
    cluster: Clusters = None,
    gpu: Gpu = None,
    same_rack: SameRack = False,
    url: Url = None,
    json: options.Json = None,
) -> None:
    """Why a job waits, with its numbers and the earliest start.

    Also for a job that is not submitted: give its keys as flags instead of an id.
    """
    from tenure.cli import screen, tables_of_jobs

    asked = job_keys(
        account=account,
        gpus=gpus,
        min_runtime=min_runtime,
        max_runtime=max_runtime,
        priority=priority,
        kind=kind,
        clusters=cluster,
        gpu=gpu,
        same_rack=same_rack,
    )
    if (job is None) == (not asked):
        raise typer.BadParameter("a JOB, or the flags of one that is not submitted", param_hint="why")
    results = screen.Results(json)
    with client(url) as lab:
        told = lab.why(job) if job is not None else lab.why_if(**asked)
    screen.warn(told.warnings)
    results.give(told.model_dump(), lambda console: tables_of_jobs.why(console, told))


def cancel(job: Job, *, reason: Reason = "", url: Url = None) -> None:
    """End a job, or all jobs of an array."""
    with client(url) as lab:
        typer.echo(lab.cancel(job, reason).text)


def hold(job: Job, *, reason: Reason = "", url: Url = None) -> None:
    """Do not consider a waiting job, until it is released."""
    with client(url) as lab:
        typer.echo(lab.hold(job, reason).text)


def release(job: Job, *, reason: Reason = "", url: Url = None) -> None:
    """Consider a held job again."""
    with client(url) as lab:
        typer.echo(lab.release(job, reason).text)


def stop(
    job: Job,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Against the contract: managers, administrators.")
    ] = False,
    reason: Reason = "",
    url: Url = None,
) -> None:
    """Stop a running job before its protection ends; it is queued again where it is resumable."""
    if not force or not reason:
        raise typer.BadParameter(
            "a stop breaks the contract: --force --reason WORDS says that it is meant (`cancel` ends a job)",
            param_hint="stop",
        )
    with client(url) as lab:
        typer.echo(lab.stop(job, reason).text)


def logs(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while it writes.")] = False,
    attempt: Annotated[int | None, typer.Option(metavar="N", min=1, help="Default: the newest.")] = None,
    bytes_: Annotated[int, typer.Option("--bytes", metavar="N", min=0, help="So much of its end.")] = 1 << 16,
    url: Url = None,
) -> None:
    """The end of what a job wrote."""
    with client(url) as lab:
        if not follow:
            typer.echo(lab.log(job, attempt=attempt, last_bytes=bytes_).text, nl=False)
            return
        for text in lab.follow(job, attempt=attempt):
            typer.echo(text, nl=False)
