"""Places: the way between two hosts, as a list of what can fail on it."""

from itertools import product

from pyspark.sql import functions as F
from support.ways import crosses, on_the_way

from rostra.history.places import link_between, places_between, way

HOSTS = ("eu.p.h1", "eu.p.h2", "eu.r.h1", "us.n.h1", "us.n.x.h1", "h0")
SERVERS = (*HOSTS, "world", "eu", "eu.p", "eu.r", "us", "us.n", "us.n.x")
LINKS = [
    *[("eu.p.h1", "eu.p"), ("eu.p", "eu.p.h2"), ("eu.p", "eu"), ("eu.r", "eu"), ("eu.r.h1", "eu.r")],
    *[("eu.p", "eu.r"), ("us", "eu"), ("us.n", "us"), ("us.n.h1", "us.n"), ("us.n.x", "us.n")],
    *[("us.n.x", "us.n.x.h1"), ("h0", "world"), ("h0", "eu"), ("us", "world")],
]


def test_what_fails_is_on_the_way_exactly_if_its_name_is_in_the_list(spark):
    """Three versions of one rule: a list to look names up in, by Spark and in Python, and a comparison with
    every pair of hosts."""
    rows = [(*pair, server, None, None, server) for pair in product(HOSTS, HOSTS) for server in SERVERS]
    rows += [(*pair, None, *link, link_between(*link)) for pair in product(HOSTS, HOSTS) for link in LINKS]
    names = "here string, there string, server string, a string, b string, place string"
    cases = spark.createDataFrame(rows, names)
    here, there, server, a, b, place = (F.col(name) for name in cases.columns)
    compared = F.when(server.isNotNull(), on_the_way(server, here, there)).otherwise(
        crosses(a, b, here, there)
    )
    judged = cases.withColumn("listed", F.array_contains(way(here, there), place)).withColumn(
        "compared", compared
    )
    found = judged.collect()
    wrong = [
        row
        for row in found
        if not row.listed == row.compared == (row.place in places_between(row.here, row.there))
    ]
    assert not wrong, wrong[:5]
    assert sum(row.listed for row in found) > len(rows) / 10
