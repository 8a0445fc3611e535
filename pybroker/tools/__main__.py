"""Run one command: `python -m pybroker.tools kafka-topics --list ...`, or this file itself, also under `python -I -S`.

When the file is run itself, it finds the package that it is part of by its own path, because `-I -S` leaves out the folders where
packages are installed.
"""

import sys

if not __package__:
    sys.path.insert(0, __file__.rpartition("/pybroker/")[0])

from pybroker.tools.run import main

main(sys.argv[1:])
