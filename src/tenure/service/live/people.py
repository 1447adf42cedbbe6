"""Who may do what: researchers act on their own jobs, managers on those below them, administrators on all."""

from __future__ import annotations

from typing import NamedTuple

from tenure.service.live.errors import Forbidden
from tenure.settings.lab import Lab


class Who(NamedTuple):
    """Whoever asks."""

    user: str
    admin: bool = False


def is_manager(lab: Lab, who: Who, account: str) -> bool:
    """Whether the account, or one above it, names this person as a manager."""
    return any(who.user in lab.accounts[row].managers for row in _upwards(lab, account))


def may_act(lab: Lab, who: Who, owner: str, account: str) -> bool:
    """Whether this person may cancel, hold and release the job, and see what it runs."""
    return who.admin or who.user == owner or is_manager(lab, who, account)


def check_act(lab: Lab, who: Who, owner: str, account: str, *, job: str, verb: str) -> None:
    """Raises Forbidden, saying who may."""
    if not may_act(lab, who, owner, account):
        raise Forbidden(
            f"job {job} is {owner}'s: {verb} is for them, managers of {account} and administrators"
        )


def check_force(lab: Lab, who: Who, account: str, job: str) -> None:
    """A forced stop breaks the contract: the owner cancels instead. Raises Forbidden."""
    if not (who.admin or is_manager(lab, who, account)):
        raise Forbidden(
            f"a forced stop of job {job} is for managers of {account} and administrators; owners cancel"
        )


def check_admin(who: Who, what: str) -> None:
    """Raises Forbidden for anyone but an administrator."""
    if not who.admin:
        raise Forbidden(f"{what} is for administrators, and {who.user} is none")


def check_submit(lab: Lab, who: Who, account: str) -> None:
    """A researcher's own account takes their work only, or that of managers above. Raises Forbidden."""
    owner = lab.researcher_of(account)
    if owner is not None and not may_act(lab, who, owner, account):
        raise Forbidden(f"account {account} is {owner}'s own: give the work to an account of yours")


def _upwards(lab: Lab, account: str) -> list[int]:
    """Rows of the account of that path and of all above it."""
    row = next((i for i, one in enumerate(lab.accounts) if one.path == account), 0)
    rows = []
    while row >= 0:
        rows.append(row)
        row = lab.accounts[row].parent
    return rows
