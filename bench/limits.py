"""The limits of this machine that other figures are held against: memory, f32 and 8-bit sums.

    python bench/limits.py [--threads 1 2] [--megabytes 512] [--rounds 5]

Reading adds up a block of memory, the best of several prefetch distances; copying is the better
of plain and non-temporal stores, bytes read and written counted; arithmetic keeps sixteen vectors
going at once. Each thread has its part, and the best of the rounds counts.
"""

import argparse

from machine import describe
from positive import positive

from lamina.measure.limits import measure_limits


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2])
    parser.add_argument("--megabytes", type=positive, default=512)
    parser.add_argument("--rounds", type=positive, default=5)
    options = parser.parse_args()
    print(f"on {describe()}")
    for threads in options.threads:
        print(measure_limits(threads, megabytes=options.megabytes, rounds=options.rounds))


if __name__ == "__main__":
    main()
