# %% [markdown]
# # A month of a world, asked on Spark
#
# A program (`python examples/a_month.py`) and a notebook (`jupyter lab examples/a_month.ipynb`) with the same
# cells. It needs Java 17 and `pip install 'rostra[spark]'`, and makes up its own history, unless the program
# is given one:
#
#     python examples/a_month.py /var/lib/rostra/journal

# %%
import sys
import tempfile
from pathlib import Path

from pyspark.sql import functions as F

from rostra.history import Archive
from rostra.history.audits import Evidence, verdicts
from rostra.history.questions import churn, convergence, flaps, memberships, size, stays
from rostra.history.session import end, start

# %% A history: fifty thousand rows are a small one. As `make month` makes them.
given = sys.argv[1] if len(sys.argv) > 1 and "ipykernel" not in sys.modules else None
journal = given or str(Path(tempfile.mkdtemp()) / "journal")
if given is None:
    sys.path += [".", ".."]  # where benchmarks/ is, beside this file's folder
    from benchmarks.sample import sample

    print(sample(journal, events=50_000, days=7))

spark = start("local[*]", settings={"spark.sql.shuffle.partitions": "4"})
events = Archive(spark, journal=journal).events.cache()

# %% What is in it?
events.groupBy("kind").count().orderBy(F.desc("count")).show(8)

# %% How large did each group become? Counted at home, which is the truth.
truth = memberships(events).cache()
largest = size(truth).groupBy("group").agg(F.max("members").alias("at_most")).orderBy(F.desc("at_most"))
largest.show(5)

# %% The busiest hours: who came, who went, who was lost from sight by a cut and came back.
churn(events, every_s=3600).orderBy(F.desc("lost"), F.desc("joins")).show(5)

# %% How long until the last observer knew, by distance?
convergence(events).where("change = 'joined'").orderBy("p50_s").show()

# %% Who lost the most from sight by cuts? Stays end by `without` or `only` then.
seen = stays(events).cache()
lost = seen.where(F.col("ended_by").isin("without", "only"))
lost.groupBy("seen_by").count().orderBy(F.desc("count")).show(5)

# %% The least stable links.
flaps(events).where("what = 'link' and times > 0").orderBy(F.desc("times")).show(5, truncate=False)

# %% Were the promises kept? In this month they were; try `sample(..., planted="why")`.
evidence = Evidence(events)
for promise in ("per-source-order", "why"):
    verdicts(evidence, promise).select("promise", "answer", "judged", "broken").show()

# %%
if "ipykernel" not in sys.modules:
    end(spark)
