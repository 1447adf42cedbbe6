"""The cluster as an image: the painting of `static/picture_paint.js` once more, for PNG and SVG files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tenure.core.words import End, NodeState
from tenure.report.colours import DOWN, PREEMPTED, account_colours
from tenure.report.picture import Picture
from tenure.story.columns import Story

HATCH_PX, HATCH_DARK_PX = 6, 3
PALE = 0.45  #: of the colour where the hatch is light
RED_S = 900  #: a preempted attempt's red edge is at most so long


def rgb(colour: str) -> NDArray[np.uint8]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.uint8)


def mixed(colour: NDArray[np.uint8], paper: NDArray[np.uint8], part: float) -> NDArray[np.uint8]:
    return np.rint(colour * part + paper * (1 - part)).astype(np.uint8)


def painted(
    story: Story, picture: Picture, *, width: int, height: int, paper: str, until_s: int
) -> NDArray[np.uint8]:
    """(height, width, 3) pixels of the whole story: row 0 is the first lane, column 0 second 0."""
    ground = rgb(paper)
    image = np.empty((height, width, 3), np.uint8)
    image[:] = ground
    kx, ky = width / max(1, until_s), height / max(1, int(picture.lane0[-1]))
    for o in picture.outages:
        top, bottom = (round(int(picture.lane0[o["node"] + i]) * ky) for i in (0, 1))
        grey = mixed(rgb(DOWN), ground, 0.35 if o["state"] == NodeState.DRAINING else 1.0)
        image[top:bottom, int(o["start_s"] * kx) : int(o["end_s"] * kx) + 1] = grey
    solid, pale = _account_rows(story, ground)
    rows, columns = np.mgrid[0:height, 0:width]
    dark = (rows + columns) % HATCH_PX < HATCH_DARK_PX
    a = picture.attempts
    x0 = (a["start_s"] * kx).astype(np.int64)
    x1 = np.maximum((a["end_s"] * kx).astype(np.int64), x0 + 1)
    hatch = np.clip((a["protected_s"] * kx).astype(np.int64), x0, x1)
    account = story.jobs["account"][a["job"]]
    red = np.where((a["end"] == End.PREEMPTED) & (x1 - x0 > 1), np.clip(int(RED_S * kx), 1, 3), 0)
    of = picture.bars["attempt"]
    y0 = np.rint(picture.bars["lane"] * ky).astype(np.int64)
    y1 = np.rint((picture.bars["lane"] + picture.bars["lanes"]) * ky).astype(np.int64)
    rows_of_bars = zip(y0, y1, x0[of], hatch[of], x1[of], account[of], red[of], strict=True)
    edge = rgb(PREEMPTED)
    for top, bottom, left, middle, right, row, wide in rows_of_bars:
        image[top:bottom, left:middle] = solid[row]
        if right > middle:
            part = np.s_[top:bottom, middle:right]
            image[part] = np.where(dark[part][:, :, None], solid[row], pale[row])
        if wide:
            image[top:bottom, right - wide : right] = edge
    return image


def _account_rows(
    story: Story, ground: NDArray[np.uint8]
) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.uint8]]]:
    colours = account_colours(story)
    solid = [rgb(colours[story.accounts[row].path]) for row in range(len(story.accounts))]
    return solid, [mixed(colour, ground, PALE) for colour in solid]
