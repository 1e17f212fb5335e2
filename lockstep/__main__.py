"""`python -m lockstep`: the `lockstep` command of the checkout that this is called in."""

import sys

from lockstep.cli import main

if __name__ == "__main__":
    sys.exit(main())
