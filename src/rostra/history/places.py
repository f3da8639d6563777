"""Paths of domains and hosts as columns: the path arithmetic of `rostra.names`, for Spark.

Paths are compared label by label (`eu.fr` is not inside `eu.france`), and everything is inside the root,
`world`. All functions are cheap text expressions: no shuffle, and no Python at run time.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from rostra import names
from rostra.names import ROOT

DISTANCES: Final = ("host", "cluster", "region", "world")
"""How far an observer is from what it observes: on the same host, in the same cluster, inside one of the
largest domains below the root, or with nothing but the world around both."""


def host_of(member: Column) -> Column:
    """`eu.paris.h1/ann#7` is on `eu.paris.h1`."""
    return F.substring_index(member, "/", 1)


def name_of(member: Column) -> Column:
    """An endpoint without its incarnation: the same program before and after a restart."""
    return F.substring_index(member, "#", 1)


def region_of(path: Column) -> Column:
    """The largest domain below the root: `eu` of `eu.paris.h1`."""
    return F.substring_index(path, ".", 1)


def depth(path: Column) -> Column:
    """0 for the root, 1 for `eu`, 2 for `eu.paris`."""
    dots = F.length(path) - F.length(F.replace(path, F.lit("."), F.lit("")))
    return F.when(path == ROOT, F.lit(0)).otherwise(dots + 1)


def parent(path: Column) -> Column:
    """The enclosing domain; the root encloses itself."""
    above = F.length(path) - F.length(F.substring_index(path, ".", -1)) - 1
    return F.when(above > 0, F.left(path, above)).otherwise(F.lit(ROOT))


def enclosing(path: Column) -> Column:
    """Every domain around a path, the root first and the path itself last, as a list."""
    labels = F.split(path, r"\.")
    around = F.transform(
        F.sequence(F.lit(1), F.size(labels)), lambda kept: F.array_join(F.slice(labels, F.lit(1), kept), ".")
    )
    root = F.array(F.lit(ROOT))
    return F.when(path == ROOT, root).otherwise(F.concat(root, around))


def inside(domain: Column | str, path: Column) -> Column:
    """Is this domain, host or endpoint inside that domain? A domain is inside itself."""
    around = domain if isinstance(domain, Column) else F.lit(domain)
    return (
        (around == ROOT)
        | (path == around)
        | F.startswith(path, F.concat(around, F.lit(".")))
        | F.startswith(path, F.concat(around, F.lit("/")))
    )


def distance(here: Column, there: Column) -> Column:
    """How far apart two hosts are: one of `DISTANCES`."""
    return (
        F.when(here == there, "host")
        .when(parent(here) == parent(there), "cluster")
        .when(region_of(here) == region_of(there), "region")
        .otherwise("world")
    )


def way(here: Column, there: Column) -> Column:
    """Everything on the one way between two hosts, as a list of names: so that what does not work can be
    looked up by its own, and need not be compared with every pair of hosts."""

    def through(chains: Column) -> Column:
        """From the chains of domains around each end, up to where they meet."""
        ours, theirs = chains["ours"], chains["theirs"]
        across = F.array(_across(F.get(ours, F.lit(0)), F.get(theirs, F.lit(0))))
        return F.concat(ours, theirs, below(ours), below(theirs), across)

    def below(chain: Column) -> Column:
        """The links up, but the topmost: from there it goes across."""
        return F.transform(F.slice(chain, 2, F.greatest(F.size(chain), F.lit(1))), _up)

    around = F.struct(enclosing(here).alias("here"), enclosing(there).alias("there"))
    apart = _named(
        around,
        lambda ends: _named(
            F.struct(
                F.array_except(ends["here"], ends["there"]).alias("ours"),
                F.array_except(ends["there"], ends["here"]).alias("theirs"),
            ),
            through,
        ),
    )
    by_the_cluster = F.when(parent(here) == parent(there), F.array(parent(here), _up(here), _up(there)))
    return F.when(here == there, F.array(here)).otherwise(
        F.concat(apart, F.coalesce(by_the_cluster, F.array().cast("array<string>")))
    )


def link_between(a: str, b: str) -> str:
    """The name of a link that can fail: one up is named by its lower end, and one between siblings by both. A
    server is named by its path."""
    if names.parent(names.Domain(a)) == b:
        return f"^{a}"
    return f"^{b}" if names.parent(names.Domain(b)) == a else "|".join(sorted((a, b)))


def places_between(here: str, there: str) -> list[str]:
    """The same as `way`, of two hosts."""
    if here == there:
        return [here]
    ours, theirs = (
        [around for around in reversed(names.enclosing(names.Domain(end))) if around not in other]
        for end, other in (
            (here, names.enclosing(names.Domain(there))),
            (there, names.enclosing(names.Domain(here))),
        )
    )
    found: list[str] = [*ours, *theirs, *(f"^{each}" for each in (*ours[1:], *theirs[1:]))]
    if ours and theirs:
        found.append("|".join(sorted((ours[0], theirs[0]))))
    above = names.parent(names.Domain(here))
    if above == names.parent(names.Domain(there)):
        found += [above, f"^{here}", f"^{there}"]
    return found


def _up(child: Column) -> Column:
    return F.concat(F.lit("^"), child)


def _across(a: Column, b: Column) -> Column:
    return F.concat(F.least(a, b), F.lit("|"), F.greatest(a, b))


def _named(value: Column, use: Callable[[Column], Column]) -> Column:
    """A value that is used many times and computed once: Spark would repeat its expression at every use."""
    return F.get(F.transform(F.array(value), use), F.lit(0))
