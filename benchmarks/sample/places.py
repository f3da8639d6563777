"""Where a sample world is: regions, clusters and hosts of different sizes, and how far apart they are."""

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rostra.errors import BadInput

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

SITES: Final = {
    "eu": ("paris", "rome", "haifa", "lyon"),
    "us": ("ny", "sf", "austin"),
    "asia": ("tokyo", "pune"),
    "sa": ("lima",),
}

DELAY_US: Final = np.array([120, 700, 9_000, 65_000], dtype=np.float64)
"""How long news usually takes within a host, a cluster, a region, and the world."""

DELAY_MAX_US: Final = 1_500_000


class Places(Struct, frozen=True):
    regions: list[str]
    clusters: list[str]
    hosts: list[str]
    region_of_cluster: Ints
    cluster_of: Ints  # of each host
    region_of: Ints
    waking_s: Ints  # of each region: how far its day is behind

    @classmethod
    def of(cls, hosts: int, luck: np.random.Generator) -> "Places":
        """So many hosts; the first clusters have the most."""
        clusters = [f"{region}.{site}" for region, sites in SITES.items() for site in sites]
        if hosts < len(clusters):
            raise BadInput(f"{hosts} hosts are too few", fix=f"at least {len(clusters)}")
        regions = list(SITES)
        weights = 1.0 / np.arange(1, len(clusters) + 1)
        sizes = 1 + luck.multinomial(hosts - len(clusters), weights / weights.sum())
        of_cluster = np.array([regions.index(name.partition(".")[0]) for name in clusters], dtype=np.int64)
        cluster_of = np.repeat(np.arange(len(clusters)), sizes).astype(np.int64)
        names = [f"{clusters[c]}.h{n + 1}" for c, size in enumerate(sizes) for n in range(size)]
        return cls(
            regions=regions,
            clusters=clusters,
            hosts=names,
            region_of_cluster=of_cluster,
            cluster_of=cluster_of,
            region_of=of_cluster[cluster_of],
            waking_s=np.array([0, 6, 16, 5][: len(regions)], dtype=np.int64) * 3600,
        )

    def inside(self, kind: str, where: int) -> Bools:
        """Which hosts are inside this region, cluster or host?"""
        of = {"region": self.region_of, "cluster": self.cluster_of, "host": np.arange(len(self.hosts))}
        found: Bools = of[kind] == where
        return found

    def distances(self, here: int, there: Ints) -> Ints:
        """0 on the same host, 1 in its cluster, 2 in its region, 3 elsewhere."""
        far = np.where(self.region_of[there] == self.region_of[here], 2, 3)
        far = np.where(self.cluster_of[there] == self.cluster_of[here], 1, far)
        found: Ints = np.where(there == here, 0, far)
        return found

    def delays(self, here: int, there: Ints, luck: np.random.Generator) -> Ints:
        """Mostly near the usual, now and then far above it."""
        usual = DELAY_US[self.distances(here, there)]
        drawn = usual * (0.6 + 0.4 * np.exp(0.6 * luck.standard_normal(len(there))))
        return np.minimum(drawn, DELAY_MAX_US).astype(np.int64)
