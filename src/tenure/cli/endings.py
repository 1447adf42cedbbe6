"""How a command ends: one clear message and a status, never a traceback unasked.

0 done · 1 the asked thing failed · 2 the question was wrong · 130 Ctrl-C · 143 told to end.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

DONE, FAILED, WRONG, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
MOST_SAID = 300  #: characters of an unexpected problem's own words
REPORT_TO = "please report it with the command and its files, and the trace that TENURE_TRACEBACK=1 prints"


def complain(message: str, word: str = "error") -> None:
    """Write `word: message` to stderr."""
    typer.secho(f"{word}: ", err=True, nl=False, bold=True, fg="yellow" if word == "note" else "red")
    typer.echo(message, err=True)


class Answers(TyperGroup):
    """The root of all commands: whatever a command raises becomes a message and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("stopped by Ctrl-C; nothing half done was left", "note")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader of our output went away: `tenure … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(DONE) from None
        except Exception as problem:
            if isinstance(problem, typer.Abort) or hasattr(problem, "exit_code"):
                raise  # typer's own refusals know their message and status
            raise typer.Exit(_told(problem)) from None


def _told(problem: Exception) -> int:
    from tenure.settings.errors import BadInput

    if os.environ.get("TENURE_TRACEBACK") == "1":
        traceback.print_exception(problem)
    if isinstance(problem, BadInput):
        complain(str(problem))
        return WRONG
    if (status := _of_server(problem)) is not None:
        complain(str(problem))
        return status
    if isinstance(problem, OSError):  # a full disk, a file that went away
        complain(str(problem))
        return FAILED
    if isinstance(problem, MemoryError):
        complain("out of memory: play fewer at once (--workers) or a shorter stretch (until)")
        return FAILED
    said = (str(problem).strip().splitlines() or ["no more is known"])[0][:MOST_SAID]
    complain(f"{type(problem).__name__}: {said}\nThis should not happen; {REPORT_TO}.")
    return FAILED


def _of_server(problem: Exception) -> int | None:
    """The status where a server did not answer or refused; None for any other problem."""
    from tenure.client.errors import ClientError, Refused

    if not isinstance(problem, ClientError):
        return None
    wrong = isinstance(problem, Refused) and problem.status in (404, 413, 422)
    return WRONG if wrong else FAILED
