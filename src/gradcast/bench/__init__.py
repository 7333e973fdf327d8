"""How fast: our step against the classical formulation of GEM, and how many streams a minute."""
