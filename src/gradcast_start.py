"""Where the command ``gradcast`` begins: before its libraries load, which takes seconds."""

import os
import signal
import sys

# How often a thread of torch looks for work before it sleeps, as libgomp counts. Its own default, 300,000, lets a
# thread keep the very core that the others wait for: see docs/benchmarks.md.
SPINS = "20000"


def main() -> None:
    """Run the command; Ctrl-C while libraries load ends the process at once, without a traceback.

    ``bench`` compares with scripts, whose threads wait as the library has it.
    """
    if "OMP_WAIT_POLICY" not in os.environ and "bench" not in sys.argv[1:2]:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gradcast.cli.app import main as command

    signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


if __name__ == "__main__":
    main()
