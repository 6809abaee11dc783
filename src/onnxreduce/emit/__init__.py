"""What leaves as evidence: scripts, pages and texts about a reduced model."""
