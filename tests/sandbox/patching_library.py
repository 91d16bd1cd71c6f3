"""The source of a library that patches models: by ways that can be followed, and by ways that cannot."""

from __future__ import annotations

# A file in a folder of installed packages: none of its functions is the user's.
LIBRARY = """
import functools, types

import torch

MODELS = {}

def closure(model):
    inner = model.forward
    def forward(*args, **kwargs):
        return inner(*args, **kwargs)
    model.forward = forward
    return model

def counting(model):
    calls, inner = 0, model.forward
    def forward(*args, **kwargs):
        nonlocal calls
        calls += 1
        return inner(*args, **kwargs)
    model.forward, model.count = forward, lambda: calls
    return model

def of_the_class(model):
    calls, inner = [], type(model).forward
    @functools.wraps(inner)
    def forward(self, *args, **kwargs):
        calls.append(model.training)
        return inner(model, *args, **kwargs)
    model.forward = types.MethodType(forward, model)
    return model

def bound_partial(model):
    def forward(inner, *args, **kwargs):
        return inner(*args, **kwargs)
    model.forward = functools.update_wrapper(functools.partial(forward, model.forward), model.forward)
    return model

class Engine:
    __slots__ = ("model", "options")
    def __init__(self, model):
        self.model, self.options = model, {"steps": [lambda x: type(model).forward(model, x)]}
    def run(self, x):
        return self.options["steps"][0](x)

def engine(model):
    run = Engine(model).run
    model.forward = lambda x: run(x)
    return model

class Hidden:
    def __init__(self, function): self.function = function
    def __call__(self, *args): return self.function(*args)
    def __reduce_ex__(self, protocol): raise TypeError("not to be copied")

def uncopyable(model):
    model.forward = Hidden(Hidden(model.forward))
    return model

def in_a_tuple(model):
    model.steps = (functools.lru_cache(lambda: model.fc1), [model.fc2.weight.t])
    model.forward = types.MethodType(_two_steps, model)
    return model

def _two_steps(self, x):
    return self.steps[0]()(x).relu() @ self.steps[1][0]() + self.fc2.bias

def in_a_registry(model):
    MODELS["main"] = model
    model.forward = types.MethodType(lambda self, x: type(self).forward(MODELS["main"], x), model)
    return model

def weights_in_a_registry(model):
    MODELS["weights"] = [model.fc1.weight, model.fc2.weight]
    def forward(self, x):
        first, second = MODELS["weights"]
        return (x @ first.t()).relu() @ second.t()
    model.forward = types.MethodType(forward, model)
    return model

def frozen_in_a_registry(model):
    MODELS["weights"] = [model.fc1.weight.requires_grad_(False)]
    def forward(self, x):
        return self.fc2((x @ MODELS["weights"][0].t()).relu())
    model.forward = types.MethodType(forward, model)
    return model

def memory_in_a_registry(model):
    MODELS["weights"] = [model.fc1.weight.detach()]
    def forward(self, x):
        return self.fc2((x @ MODELS["weights"][0].t()).relu())
    model.forward = types.MethodType(forward, model)
    return model

def by_a_scripted_function(model):
    MODELS["weights"] = [model.fc1.weight]
    multiply = torch.jit.CompilationUnit("def multiply(x, w):\\n    return torch.mm(x, w.t())\\n").multiply
    def forward(self, x):
        return self.fc2(multiply(x, MODELS["weights"][0]).relu())
    model.forward = types.MethodType(forward, model)
    return model

def writes_a_buffer(model):
    model.register_buffer("mean", model.fc1.weight.new_zeros(20))
    MODELS["mean"] = model.mean
    def forward(self, x):
        MODELS["mean"].lerp_(x.mean(0), 0.1)
        return self.fc2(self.fc1(x - MODELS["mean"]).relu())
    model.forward = types.MethodType(forward, model)
    return model

def reads_another_buffer(model):
    model.register_buffer("mean", model.fc1.weight.new_zeros(20))
    MODELS["mean"] = model.mean
    def forward(self, x):
        self.mean.lerp_(x.mean(0), 0.1)
        return self.fc2(self.fc1(x - MODELS["mean"]).relu())
    model.forward = types.MethodType(forward, model)
    return model
"""

PATCHES = ["closure", "counting", "of_the_class", "bound_partial", "engine", "uncopyable", "in_a_tuple"]
LEAKS = {
    "in_a_registry": "used the forward of fc1 (Linear)",
    "weights_in_a_registry": "used the parameter fc1.weight",
    "frozen_in_a_registry": "used the parameter fc1.weight",
    "memory_in_a_registry": "did not use its own fc1.weight but the fc1.weight",
    "by_a_scripted_function": "gave outputs whose gradient goes to the parameter fc1.weight",
    "writes_a_buffer": "writes to mean",
    "reads_another_buffer": "changed its own mean but read the mean",
}
