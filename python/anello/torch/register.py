"""The entry point that PyTorch calls at the end of `import torch`. It makes the name "anello" known and does nothing else: an
exception here would make `import torch` fail, and whoever imports torch pays for it."""


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
        # A list: the letters of a string would each be taken for a device.
        backends.register_backend("anello", create, extended_api=True, devices=["cpu"])


def create(options, backend_options=None):
    from anello.torch.process_group import ProcessGroup

    return ProcessGroup.create(options, backend_options)
