"""Where the command ``gradcast`` begins: before its libraries load, which takes seconds."""

import signal


def main() -> None:
    """Run the command; Ctrl-C while libraries load ends the process at once, without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gradcast.cli.app import main as command

    signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


if __name__ == "__main__":
    main()
