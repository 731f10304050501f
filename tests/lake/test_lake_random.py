"""Random tables of Delta and Iceberg, as users change them: tasks read the rows that Spark's reader reads."""

from __future__ import annotations

import re
from random import Random

import pytest

import windowkit as wk
import windowkit.spark
from support.lake import EVERY, READ, by_spark, counted
from support.spark import assert_equal, rows_of

SEEDS = range(10)
COLUMNS = {"k": "bigint", "t": "timestamp", "v": "double", "text": "string", "n": "int", "day": "date"}
VALUES = {
    "k": "id % 4",
    "t": "if(id % 19 = 3, null, timestamp_seconds(id * 7 % 90))",
    "v": "if(id % 11 = 5, null, id % 13 / 4.0D)",
    "text": "element_at(array('a', 'b', 'c d', null), cast(id % 4 + 1 as int))",
    "n": "cast(id % 23 as int)",
    "day": "date_add(date'2024-05-01', cast(id % 3 as int))",
}
OTHERS = {
    "w": ("double", "id / 8.0D"),
    "more": ("bigint", "id % 6"),
    "word": ("string", "concat('w', id % 2)"),
}
TESTS = {
    "k": ("k = 1", "k in (0, 3)", "k > 1", "not (k <=> 2)"),
    "v": ("v > 1", "v <= 2.25", "v is null", "v = 0"),
    "text": ("text = 'a'", "text in ('b', 'c d')", "text is null", "text > 'a'"),
    "n": ("n between 3 and 9", "n < 5", "n != 7"),
    "day": ("day = '2024-05-02'", "day > '2024-05-01'"),
    "w": ("w > 3", "w is null"),
    "more": ("more = 2", "more is not null"),
    "word": ("word = 'w1'", "word is null or word < 'w1'"),
    # This, Spark evaluates.
    "t": ("t < '1970-01-01 01:01:00'", "second(t) > 5"),
}
TAKEN: list[bool] = []


class Changed:
    """A table that is changed at random, and what it calls its columns now."""

    def __init__(self, spark, chance, kind, name):
        self.spark, self.chance, self.kind, self.name = spark, chance, kind, name
        self.called = {column: column for column in COLUMNS}
        self.rows = 0
        if kind == "delta":
            self.can_rename = chance.random() < 0.7
            mode = chance.choice(["name", "name", "id"]) if self.can_rename else "none"
            vectors = str(chance.random() < 0.7).lower()
            given = {"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": vectors}
            by = chance.choice(["", "", "text", "day", "k, day"])
        else:
            self.can_rename = True
            how = chance.choice(["merge-on-read", "merge-on-read", "copy-on-write"])
            given = dict.fromkeys((f"write.{what}.mode" for what in ("delete", "update", "merge")), how)
            given["format-version"] = chance.choice(["2", "3"])
            given["write.parquet.row-group-size-bytes"] = chance.choice(["1000", "100000"])
            by = chance.choice(["", "text", "day", "bucket(2, k)", "days(t), truncate(1, text)"])
        columns = ", ".join(f"{column} {of_type}" for column, of_type in COLUMNS.items())
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        spark.sql(
            f"create table {name} ({columns}) using {kind} {f'partitioned by ({by})' if by else ''} "
            f"tblproperties ({properties})"
        )
        # A column by which a table is partitioned keeps its name and place.
        self.fixed = {column for column in COLUMNS if column in by} | {"k", "t"}
        self.append()

    def values(self):
        known = VALUES | {column: made for column, (_, made) in OTHERS.items()}
        return ", ".join(f"{known[column]} {name}" for column, name in self.called.items())

    def some(self):
        """Return a condition that there may be on columns that there are."""
        column = self.chance.choice([each for each in self.called if each != "t"])
        return re.sub(rf"\b{column}\b", self.called[column], self.chance.choice(TESTS[column]))

    def append(self):
        rows = self.chance.randrange(1, 80)
        files = self.chance.choice([1, 2])
        self.spark.sql(
            f"insert into {self.name} select /*+ repartition({files}) */ {self.values()} "
            f"from range({self.rows}, {self.rows + rows})"
        )
        self.rows += rows

    def delete(self):
        self.spark.sql(f"delete from {self.name} where {self.some()}")

    def update(self):
        self.spark.sql(
            f"update {self.name} set {self.called['n']} = {self.called['n']} + 1 where {self.some()}"
        )

    def merge(self):
        n = self.called["n"]
        self.spark.sql(
            f"merge into {self.name} a "
            f"using (select {self.values()} from range({self.rows}, {self.rows + 6})) b "
            f"on a.k = b.k and a.{n} = b.{n} and a.t = b.t "
            f"when matched and a.{n} < 9 then delete when matched then update set {n} = 99 "
            "when not matched then insert *"
        )
        self.rows += 6

    def rename(self):
        free = [column for column in self.called if column not in self.fixed]
        if not self.can_rename or not free:
            return
        one, other = self.chance.choice(free), self.chance.choice(free)
        if one == other:
            steps = [(self.called[one], f"{one}_{self.chance.randrange(10**6)}")]
            self.called[one] = steps[0][1]
        else:
            # They change their names with each other.
            first, second = self.called[one], self.called[other]
            steps = [(first, "spare"), (second, first), ("spare", second)]
            self.called[one], self.called[other] = second, first
        for old, new in steps:
            self.spark.sql(f"alter table {self.name} rename column {old} to {new}")

    def add(self):
        free = [column for column in OTHERS if column not in self.called]
        if free:
            column = self.chance.choice(free)
            self.spark.sql(f"alter table {self.name} add column {column} {OTHERS[column][0]}")
            self.called[column] = column

    def drop(self):
        there = [column for column in OTHERS if column in self.called]
        if self.can_rename and there:
            column = self.chance.choice(there)
            self.spark.sql(f"alter table {self.name} drop column {self.called.pop(column)}")

    def compact(self):
        if self.kind == "delta":
            self.spark.sql(f"optimize {self.name}")
        else:
            self.spark.sql(f"call ice.system.rewrite_data_files('{self.name.removeprefix('ice.')}')")

    def change(self):
        how = [self.append, self.append, self.delete, self.delete, self.update, self.merge, self.rename]
        self.chance.choice([*how, self.rename, self.add, self.add, self.drop, self.compact])()

    def reads(self):
        """Yield DataFrames of it: of now, and of an earlier version."""
        now = self.spark.table(self.name)
        yield now
        yield now.where(f"({self.some()}) {self.chance.choice(['and', 'or'])} ({self.some()})")
        yield now.where(self.chance.choice(TESTS["t"])).where(self.some()).withColumnRenamed("v", "renamed")
        log = (
            f"describe history {self.name}"
            if self.kind == "delta"
            else f"select * from {self.name}.snapshots"
        )
        column = "version" if self.kind == "delta" else "snapshot_id"
        versions = [row[column] for row in self.spark.sql(log).collect()]
        yield self.spark.sql(f"select * from {self.name} version as of {self.chance.choice(versions)}")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_tables(spark, table, kind, seed):
    chance = Random(f"{kind} {seed}")
    made = Changed(spark, chance, kind, table(kind))
    for _ in range(chance.randrange(3, 8)):
        made.change()
    for frame in made.reads():
        wanted = by_spark(spark, lambda frame=frame: EVERY.run(frame))
        found, text = counted(EVERY.run(frame)), str(EVERY.explain(frame))
        TAKEN.append(f"stage 1, {READ}" in text)
        assert found == wanted, (text, found - wanted, wanted - found)
    value = made.called["n"]
    query = wk.query(
        by="k",
        time="t",
        windows=chance.choice([wk.tumbling("10 seconds"), wk.sliding("20 seconds", "5 seconds")]),
        aggs=[wk.count(), wk.sum(value), wk.min(value)],
    )
    chosen = spark.table(made.name).where(made.some())
    oracle = rows_of(windowkit.spark.reference(chosen, query), query)
    assert_equal(rows_of(query.run(chosen), query), oracle, 1e-9, str(query.explain(chosen)))


def test_most_of_them_are_read_by_tasks():
    assert len(TAKEN) < 8 * len(SEEDS) or 0.6 < sum(TAKEN) / len(TAKEN) < 1
