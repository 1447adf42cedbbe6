"""What a decision looks at: what was asked for (read-only), one row a job, account, node.

Times are int64 seconds, GPUs whole numbers, quotas micro-GPUs (`_ugpu`, millionths of a GPU), so that
every sum is exact whatever its order. Names are row numbers; strings stay at the door.
What a turn keeps up and changes (the board) is in `board.py`.
"""

from __future__ import annotations

from tenure.core.tables import B1, I8, table_type

UGPU = 1_000_000  #: micro-GPUs in a GPU
WHOLE = 1_000_000  #: shares are millionths of the parent's

#: First what is read of every attempt that is weighed: it lies together.
JOB = table_type(
    min_runtime_s=I8,  #: declared; 0 = unbudgeted
    save_every_s=I8,  #: period of its saves while it works; 0 = none by itself
    restart_s=I8,  #: time each attempt after the first spends before it works
    kind=I8,  #: words.Kind
    gpu_type=I8,  #: NONE = any
    resumable=B1,
    saves_when_asked=B1,
    same_rack=B1,
    max_runtime_s=I8,  #: NEVER_S = none
    submit_s=I8,  #: first submission
    clusters=I8,  #: bit c set: may run on cluster c
    account=I8,  #: row of its leaf account
    gpus=I8,
    priority=I8,  #: order inside one account only; larger first
    first_entry=I8,  #: its rows in the waiting lists: one for each cluster it may run on
)

ACCOUNT = table_type(
    max_gpus=I8,  #: hard limit on GPUs held at once, all clusters together; NEVER_S = none
    parent=I8,  #: NONE for the root (row 0)
    first_child=I8,
    next_sibling=I8,
    n_below=I8,  #: rows of its subtree besides itself; rows are in depth-first order
    depth=I8,
    own_leaf=B1,  #: stands for the work given to its parent itself
)

NODE = table_type(
    gpus=I8,
    cluster=I8,
    rack=I8,  #: row number of the rack, unique over clusters
    gpu_type=I8,  #: NONE = unnamed
)

CLUSTER = table_type(
    first_node=I8,  #: its nodes are the rows first_node … first_node + n_nodes - 1
    n_nodes=I8,
    gpus=I8,  #: of all nodes, healthy or not
    node_gpus=I8,  #: GPUs of its largest node
)
