"""anello.apex.parallel."""

import apex.parallel.LARC  # noqa: F401  The import binds the name LARC to this module, and the next one to the class.
from anello.apex.parallel import *  # noqa: F401, F403
