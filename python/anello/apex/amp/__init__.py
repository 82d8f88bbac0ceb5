"""apex.amp: mixed precision, with 16-bit floats that suit the device: float16 on CUDA, bfloat16 on the CPU."""

from anello.apex.amp.casts import (disable_casts, float_function, half_function, promote_function,
                                   register_float_function, register_half_function, register_promote_function)
from anello.apex.amp.handle import init
from anello.apex.amp.initialize import initialize, load_state_dict, state_dict
from anello.apex.amp.optimizer import master_params
from anello.apex.amp.scaling import scale_loss
from anello.apex.amp.state import state as _amp_state

__all__ = ["disable_casts", "float_function", "half_function", "init", "initialize", "load_state_dict", "master_params",
           "promote_function", "register_float_function", "register_half_function", "register_promote_function",
           "scale_loss", "state_dict"]
