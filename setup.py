"""The description that a package index shows; everything else about the package is in pyproject.toml.

README.md links to files of the repository, and shows a picture of it. Nothing of that lies beside a package, so there
links and pictures become words.
"""

import re
from pathlib import Path

from setuptools import setup

PICTURE = re.compile(r"!\[([^\]]+)\]\((?!https?:)[^)\s]+\)")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)\s]+)\)")


def described(readme: str) -> str:
    """Without links into the repository: ``[table](docs/x.md)`` is table (docs/x.md), a file's own name is itself.

    A picture is what it says to readers who do not see it.
    """
    readme = PICTURE.sub(lambda shown: f"*{shown[1]}*", readme)
    return LINK.sub(lambda link: link[1] if link[1] == link[2] else f"{link[1]} ({link[2]})", readme)


if __name__ == "__main__":
    setup(
        long_description=described((Path(__file__).parent / "README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
    )
