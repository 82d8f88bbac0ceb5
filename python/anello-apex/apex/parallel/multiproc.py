"""python -m apex.parallel.multiproc"""

import sys

from anello.apex.parallel.multiproc import main

if __name__ == "__main__":
    sys.exit(main())
