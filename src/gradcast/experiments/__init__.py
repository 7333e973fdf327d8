"""Every published table and figure as something to run: what was published, what comes out, and the difference."""
