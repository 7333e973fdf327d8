"""A Ray cluster of two nodes on this machine, one CPU each: prints its address; a line on standard input kills one."""

import os
import signal
import sys

from ray.cluster_utils import Cluster

SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": SOON})
    second = cluster.add_node(num_cpus=1)
    sys.stdout.write(f"{cluster.address}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        for process in second.live_processes():
            os.kill(process[1].pid, signal.SIGKILL)
    cluster.shutdown()


if __name__ == "__main__":
    main()
