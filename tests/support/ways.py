"""The one way between two hosts, place by place: what `rostra.history.places.way` says at once."""

from pyspark.sql import Column

from rostra.history.places import inside, parent
from rostra.names import ROOT


def on_the_way(server: Column, here: Column, there: Column) -> Column:
    """Is this server on the one way between two hosts: up, across one sibling link, down?"""
    ends = (server == here) | (server == there)
    between = inside(server, here) != inside(server, there)
    same_cluster = (here != there) & (parent(here) == parent(there)) & (server == parent(here))
    return ends | between | same_cluster


def crosses(a: Column, b: Column, here: Column, there: Column) -> Column:
    """Does the one way between two hosts go over the link between these two servers?

    Hosts of one cluster meet in its server; all others go up no farther than to the child of the smallest
    domain that holds both, and across to its sibling.
    """

    def up(child: Column, above: Column, this: Column, that: Column) -> Column:
        leaves = (parent(child) == above) & (above != child) & inside(child, this) & ~inside(child, that)
        return leaves & (~inside(above, that) | ((child == this) & (parent(that) == above)))

    siblings = (parent(a) == parent(b)) & (a != b) & (a != ROOT) & (b != ROOT)
    across = siblings & ((inside(a, here) & inside(b, there)) | (inside(b, here) & inside(a, there)))
    return (
        across | up(a, b, here, there) | up(a, b, there, here) | up(b, a, here, there) | up(b, a, there, here)
    )
