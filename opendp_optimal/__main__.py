"""``python -m opendp_optimal``: the command line, as ``opendp-optimal``."""

from opendp_optimal.cli import main

if __name__ == "__main__":
    main()
