"""Data types and operations with the library's numbers, and the elements of objects with a buffer."""

FLOAT32, FLOAT64, INT32, INT64, UINT8, FLOAT16, BFLOAT16, INT8, INT16, UINT16, UINT32, UINT64 = range(12)
FLOAT8_E4M3, FLOAT8_E5M2, BOOL, COMPLEX64, COMPLEX128, BYTE = range(12, 18)

SUM, PROD, MIN, MAX, AVG, BAND, BOR, BXOR, LAND, LOR, LXOR = range(11)

OPERATIONS = {"sum": SUM, "prod": PROD, "min": MIN, "max": MAX, "avg": AVG, "band": BAND, "bor": BOR, "bxor": BXOR,
              "land": LAND, "lor": LOR, "lxor": LXOR}

_SIGNED = {1: INT8, 2: INT16, 4: INT32, 8: INT64}
_UNSIGNED = {1: UINT8, 2: UINT16, 4: UINT32, 8: UINT64}
_OTHER = {"e": FLOAT16, "f": FLOAT32, "d": FLOAT64, "?": BOOL, "Zf": COMPLEX64, "Zd": COMPLEX128, "c": BYTE}


def of_format(code, itemsize):
    """The data type of a buffer whose format (of the module struct) is `code`. Raises TypeError for an unknown
    format."""
    code = code.lstrip("@=")
    if code in _OTHER:
        return _OTHER[code]
    if code in tuple("bhilqn"):
        return _SIGNED[itemsize]
    if code in tuple("BHILQN"):
        return _UNSIGNED[itemsize]
    raise TypeError(f"elements of format {code!r} are none that Anello knows")


def operation(op):
    """The number of an operation, given its name or the number itself."""
    if isinstance(op, int):
        return op
    try:
        return OPERATIONS[op]
    except KeyError:
        raise ValueError(f"operation {op!r} is not one of {', '.join(OPERATIONS)}") from None
