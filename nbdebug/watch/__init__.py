"""The recorder of a real training: `nbdebug.watch(model, optimizer)`."""
