"""python -m tests.soak"""

import argparse
import os
import sys

from mrq.processes import ONE_THREAD


def main() -> int:
    """Reads the options, and soaks."""
    os.environ |= ONE_THREAD  # before NumPy and PyTorch are imported: what forks must have no threads
    from tests.soak.configurations import CONFIGURATIONS
    from tests.soak.imports import import_everything
    from tests.soak.soak import KINDS, Plan, soak

    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, help="end after so many trials")
    parser.add_argument("--first", type=int, default=0, help="the number of the first trial")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=tuple(KINDS))
    parser.add_argument("--configuration", choices=CONFIGURATIONS, help="only this training")
    parser.add_argument("--lanes", type=int, default=len(os.sched_getaffinity(0)), help="trials side by side")
    parser.add_argument("--endurance", action="store_true", help="one long training, whose memory must stay flat")
    asked = vars(parser.parse_args())
    if asked.pop("endurance"):
        from tests.soak.endurance import endure

        return endure(asked["minutes"])
    import_everything()
    return soak(Plan(**asked))


if __name__ == "__main__":
    sys.exit(main())
