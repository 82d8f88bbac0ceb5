"""What amp.initialize has set up in this process."""

import weakref

from anello.apex import ranks


class State:
    def __init__(self):
        self.opt_properties = None   # Options; None before initialize
        self.loss_scalers = []
        self.verbosity = 1
        self.casts = False           # functions of torch cast their inputs (O1)
        self.stashes = weakref.WeakSet()  # of optimizers

    def say(self, text):
        if self.verbosity > 0:
            ranks.say(text)


state = State()
