"""How fast: our step against the classical formulation of GEM, streams a minute, and an epoch of ACL."""
