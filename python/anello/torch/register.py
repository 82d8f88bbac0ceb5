"""The entry points: autoload, which PyTorch calls at the end of `import torch`, and register, which later versions
call when a program asks for the backend. It only registers the name "anello": an exception here would make
`import torch` fail, and every import of torch pays for its time."""

import os


def autoload():
    try:
        register()
    except Exception as error:
        import warnings

        warnings.warn(f"the torch.distributed backend \"anello\" could not be registered: {error}", stacklevel=2)


def register():
    import torch.distributed

    if not torch.distributed.is_available():
        return
    backends = torch.distributed.Backend
    if "ANELLO" not in backends._plugins:
        # A list, because PyTorch would take each letter of a string for a device.
        backends.register_backend("anello", create, extended_api=True, devices=["cpu", "cuda"])
        if os.environ.get("ANELLO_TORCH_AS"):
            from anello.torch import stand_in

            stand_in.install(stand_in.names())


def create(options, backend_options=None):
    from anello.torch.process_group import ProcessGroup

    return ProcessGroup.create(options, backend_options)
