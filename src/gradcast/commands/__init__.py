"""The commands, one module each; cli.py gathers them."""
