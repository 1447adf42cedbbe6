"""`tenure`: the command. A file a noun; whatever is heavy is imported inside the command that needs it."""

from __future__ import annotations

import io
import signal
import sys
from typing import Annotated

import typer

from tenure.cli import (
    audit,
    checkpoint,
    compare,
    fleet,
    jobs,
    nodes,
    plan,
    plan_fleet,
    policy,
    preflight,
    questions,
    run,
    server,
    simulate,
    sweep,
    tokens,
    trace,
)
from tenure.cli.endings import TERMINATED, Answers

app = typer.Typer(
    name="tenure",
    cls=Answers,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from tenure import __version__

        typer.echo(f"tenure {__version__}")
        raise typer.Exit()


@app.callback()
def tenure(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Share a GPU cluster by budgets of GPU time, rehearse the rules on real jobs, prove who got what."""


app.command()(simulate.simulate)
app.command()(compare.compare)
app.command()(sweep.sweep)
app.command("what-if")(questions.what_if)
app.command("next-preempted")(questions.next_preempted)
app.command()(audit.audit)
app.command()(fleet.fleet)
app.command()(server.serve)
for _command in (
    jobs.submit,
    jobs.queue,
    jobs.show,
    jobs.why,
    jobs.cancel,
    jobs.hold,
    jobs.release,
    jobs.stop,
    jobs.logs,
    server.account,
    server.doctor,
    server.replay,
):
    app.command()(_command)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(nodes.app, name="node")
app.add_typer(tokens.app, name="token")
app.add_typer(trace.app, name="trace")
app.add_typer(policy.app, name="policy")
for _fleet in plan_fleet.COMMANDS:
    plan.app.command()(_fleet)
app.add_typer(plan.app, name="plan")
app.add_typer(run.app, name="run")
app.command()(preflight.preflight)


def main() -> None:
    """Entry point of the `tenure` script."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # unwinds: nothing half done stays
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without our signs shows others, and no error
            stream.reconfigure(errors="replace")
    app()
