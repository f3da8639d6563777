"""Which replica of a server leads? Terms, votes of a majority, and a registry that no failover loses."""
