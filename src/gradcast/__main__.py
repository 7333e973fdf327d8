"""Starts the command line: ``python -m gradcast``."""

from gradcast.cli.app import main

main()
