"""A setup with an argument that nbdebug does not know."""


def make_setup():
    return {"model": 1, "loader": [], "learning_rate": 0.1}
