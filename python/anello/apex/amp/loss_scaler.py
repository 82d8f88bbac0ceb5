"""The factor of a loss, which keeps small gradients representable in 16 bits."""

INITIAL = 2.0 ** 16
FACTOR = 2.0
WINDOW = 2000  # steps without overflow, after which the scale doubles


class LossScaler:
    def __init__(self, loss_scale, min_loss_scale=None, max_loss_scale=2.0 ** 24):
        self.dynamic = loss_scale == "dynamic"
        self._least, self._most = min_loss_scale, max_loss_scale
        self._scale = min(INITIAL, max_loss_scale) if self.dynamic else float(loss_scale)
        self.unskipped = 0
        self.overflowed = False  # in a backward pass since the last update

    def loss_scale(self):
        return self._scale

    def update(self):
        """After a step's last backward pass: whether the optimizers must skip the step."""
        skips, self.overflowed = self.overflowed, False
        if skips:
            self._scale /= FACTOR
            if self._least is not None:
                self._scale = max(self._scale, self._least)
            self.unskipped = 0
            return True
        self.unskipped += 1
        if self.dynamic and self.unskipped == WINDOW:
            self._scale = min(self._scale * FACTOR, self._most)
            self.unskipped = 0
        return False

    def state_dict(self):
        return {"loss_scale": self._scale, "unskipped": self.unskipped}

    def load_state_dict(self, values):
        self._scale, self.unskipped = values["loss_scale"], values["unskipped"]
