"""A quick look is no result: whatever is made of one says so."""

from gradcast.specs.spec import Spec

QUICK_LOOK = "QUICK LOOK, not a result"


def mark(spec: Spec) -> str:
    """The words that everything made of such a run carries, which its title begins with; none for other runs."""
    return QUICK_LOOK if spec.title.startswith(QUICK_LOOK) else ""
