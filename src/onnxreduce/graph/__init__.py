"""Models, nodes and values: loading, indexing, cutting. Knows nothing of runtimes or oracles."""
