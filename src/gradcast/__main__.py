"""``python -m gradcast``."""

from gradcast.cli import main

main()
