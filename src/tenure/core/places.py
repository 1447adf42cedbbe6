"""Nodes one by one: what a job holds on one, which have just so much to take, and a list of them in order.

`board.levels` keeps, for every number of GPUs to take, the nodes in service that have exactly so many: a bit
a node, 32 to a word. A place is looked for from the tightest level up, so nodes that are full cost nothing.
`board.clearable` keeps the same of what they would have if all that may be stopped was: a claimant looks only
at nodes that could be cleared for it.
"""

from __future__ import annotations

from tenure.core.kernel import kernel
from tenure.core.words import NONE

WORD = 32  #: nodes a word
#: What may be stopped on a node: unbudgeted attempts; those, and what an owner above its target can spare.
LAX, RIPE, WAYS = 0, 1, 2


@kernel
def gpus_on(lab, board, job, node):
    """GPUs that a job holds on one of its nodes: its own, or the whole node of a gang."""
    return board.stays.gpus[job] if board.stays.n_nodes[job] == 1 else lab.nodes.gpus[node]


@kernel
def _merge(order, keys, start, middle, end, merged):
    """Two sorted stretches of `order`, one behind the other, as one; writes `merged[start:end]`."""
    one, other = start, middle
    for k in range(start, end):
        if other == end or (one < middle and keys[order[one]] <= keys[order[other]]):
            merged[k] = order[one]
            one += 1
        else:
            merged[k] = order[other]
            other += 1


@kernel
def rank(order, keys, n, spare):
    """Sort the nodes `order[:n]`, least of `keys` first, equals as they stood. Writes `spare[:n]` too."""
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(order, keys, start, min(start + width, n), min(start + 2 * width, n), spare)
        for k in range(n):
            order[k] = spare[k]
        width *= 2


@kernel
def enter_level(board, node):
    """The node, in service, has `avail` GPUs to take from now on."""
    board.levels[board.posts.avail[node], node // WORD] |= 1 << (node % WORD)


@kernel
def leave_level(board, node):
    """The node has no longer `avail` GPUs to take, or is no longer in service."""
    board.levels[board.posts.avail[node], node // WORD] &= ~(1 << (node % WORD))


@kernel
def next_at_level(board, level, node, last):
    """The first node from `node` on and before `last` that has exactly `level` GPUs to take; or NONE."""
    place = node // WORD
    word = board.levels[level, place] >> (node % WORD) if node < last else 0
    while word == 0:
        place += 1
        node = place * WORD
        if node >= last:
            return NONE
        word = board.levels[level, place]
    node += _lowest_bit(word)
    return node if node < last else NONE


@kernel
def mark_clearable(board, way, node, room, sign):
    """The node, in service, has so much room if what is `way` is stopped: from now on (1), no longer (-1)."""
    column, bit = way * board.rooms.shape[1] + room, 1 << (node % WORD)
    if sign > 0:
        board.clearable[node // WORD, column] |= bit
    else:
        board.clearable[node // WORD, column] &= ~bit


@kernel
def next_clearable(board, way, room, node, last):
    """The first node from `node` on and before `last` with so much room, or more, if what is `way` stops.

    NONE: there is no more. Of what is stopped in no such way (ANYTHING) all nodes may be.
    """
    if way >= WAYS:
        return node if node < last else NONE
    width, place, past = board.rooms.shape[1], node // WORD, node % WORD
    while place * WORD < last:
        word = 0
        for column in range(way * width + room, (way + 1) * width):
            word |= board.clearable[place, column]
        word >>= past
        if word != 0:
            node = place * WORD + past + _lowest_bit(word)
            return node if node < last else NONE
        place += 1
        past = 0
    return NONE


@kernel
def _lowest_bit(word):
    """The place of the lowest bit of a word that is not 0."""
    place, step = 0, WORD // 2
    while step > 0:
        if word & ((1 << step) - 1) == 0:
            word >>= step
            place += step
        step //= 2
    return place
