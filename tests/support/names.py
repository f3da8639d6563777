"""Names of every kind, for properties."""

from hypothesis import strategies as st

from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.names.domains import DOMAIN_LABELS_MAX, HOST_LABELS_MAX, LABEL_LENGTH_MAX

labels = st.one_of(
    st.sampled_from(["a", "b", "eu", "fr", "france", "c1", "h1", "-", "0", "9" * LABEL_LENGTH_MAX]),
    st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=LABEL_LENGTH_MAX),
)


def _paths(longest: int, shortest: int) -> st.SearchStrategy[Domain]:
    return (
        st.lists(labels, min_size=shortest, max_size=longest)
        .filter(lambda path: path[:1] != [ROOT])
        .map(lambda path: Domain(".".join(path)) if path else ROOT)
    )


domains = _paths(DOMAIN_LABELS_MAX, 0)
hosts = _paths(HOST_LABELS_MAX, 1)
scopes = _paths(HOST_LABELS_MAX, 0)

endpoint_names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
incarnations = st.one_of(st.integers(0, 100), st.integers(0, 2**63 - 1))
endpoints = st.builds(
    lambda host, name, number: Endpoint(f"{host}/{name}#{number}"), hosts, endpoint_names, incarnations
)

segments = (
    st.text("abXY019 -_.:@#$%&*+=?^|éßñ日本語Ωж😀", min_size=1, max_size=20)
    .map(lambda text: " ".join(text.split()))
    .filter(bool)
)
struct_names = st.lists(segments, min_size=1, max_size=4).map("/".join)


group_names = st.one_of(
    struct_names,
    st.builds("{}!{}".format, struct_names, struct_names),
    st.builds("{}~{}".format, endpoints, struct_names),
).filter(lambda name: len(name.encode()) <= 255)

groups = st.builds(Group, group_names, scopes)
