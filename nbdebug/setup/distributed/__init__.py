"""Several processes that train one model: what each of them says about itself, gathered on the first.

Nothing here is a collective operation. Each process writes what it has to say into the store of torch.distributed, and
the first one looks there: no process waits for another, and nothing can get between the user's own
collectives.
"""
