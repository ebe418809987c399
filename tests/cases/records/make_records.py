#!/usr/bin/env python3
"""Makes the small parquet and arrow files beside it. Needs `pip install pyarrow`."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
rows = pa.table(
    {
        "text": ["one", 'two "quoted"\n', None, "é and 😀"],
        "count": pa.array([1, -(2**62), None, 4], pa.int64()),
        "share": pa.array([0.5, float("nan"), None, 1e300], pa.float64()),
        "good": [True, False, None, True],
        "messages": pa.array(
            [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], [], None, [{"role": "user", "content": None}]],
            pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
        ),
        "large": pa.array(["x", "y", "z", ""], pa.large_string()),
        "kind": pa.array(["red", "blue", "red", None]).dictionary_encode(),
    }
)
pq.write_table(rows, HERE / "rows.parquet", row_group_size=3, compression="snappy")
pq.write_table(rows, HERE / "zstd.parquet", compression="zstd")
with pa.OSFile(str(HERE / "rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
    writer.write_table(rows, max_chunksize=2)
with pa.OSFile(str(HERE / "stream.arrow"), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
    writer.write_table(rows, max_chunksize=2)
foreign = pa.table({"text": ["a"], "when": pa.array([datetime.datetime(2024, 1, 2)], pa.timestamp("us"))})
pq.write_table(foreign, HERE / "foreign.parquet")
chats = pa.table({"messages": [[{"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "Hi"}]] * 3})
pq.write_table(chats, HERE / "chats.parquet")
