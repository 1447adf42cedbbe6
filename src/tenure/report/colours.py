"""The one place for colours: an account has the same in every chart, on every page, in every run of a lab.

Sixteen hues, picked so that any two stay apart in normal sight and under the three colour-vision
deficiencies (distance in Oklab after the matrices of Machado, Oliveira and Fernandes 2009), of middle
lightness so that one set serves light and dark pages, and none of them red: red means preempted.
"""

from __future__ import annotations

from tenure.story.columns import Story

ACCOUNT_COLOURS = (
    "#1b71bc",
    "#dec504",
    "#ac5107",
    "#86cdff",
    "#c08f96",
    "#8e93f3",
    "#775774",
    "#889e2a",
    "#b0cea9",
    "#618568",
    "#8b7ea5",
    "#51bcce",
    "#79c069",
    "#5f7ceb",
    "#84de70",
    "#a2419d",
)
OTHER = "#8a8a8a"  #: inner accounts, whatever belongs to nobody

BUDGETED = "#2f6aa3"
UNBUDGETED = "#8fbde0"
IDLE = "#e8e4da"
DOWN = "#77736b"
PREEMPTED = "#d7191c"

#: Shades of the causes of a shortfall and of reasons for waiting, in a fixed order.
CAUSE_COLOURS = ("#4d4d4d", "#1b71bc", "#ac5107", "#dec504", "#51bcce", "#a2419d", "#b0cea9", "#c08f96")


def leaves(story: Story) -> list[int]:
    """Rows of the accounts that can hold jobs: all without a child."""
    parents = {account.parent for account in story.accounts}
    return [row for row in range(len(story.accounts)) if row not in parents]


def account_colours(story: Story) -> dict[str, str]:
    """Colour by path: leaves in the order of the lab, sixteen and then round again; inner ones grey."""
    leaf = leaves(story)
    found = {
        story.accounts[row].path: ACCOUNT_COLOURS[i % len(ACCOUNT_COLOURS)] for i, row in enumerate(leaf)
    }
    return found | {account.path: OTHER for account in story.accounts if account.path not in found}


def path_colours(paths: list[str]) -> dict[str, str]:
    """As `account_colours`, where only measures are at hand: paths in the order of the lab."""
    inner = {path.rsplit("/", 1)[0] for path in paths if "/" in path}
    found: dict[str, str] = {}
    for path in paths:
        if path not in inner:
            found[path] = ACCOUNT_COLOURS[len(found) % len(ACCOUNT_COLOURS)]
    return found | {path: OTHER for path in paths if path in inner}
