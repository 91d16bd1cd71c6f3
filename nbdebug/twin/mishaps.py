"""What torch's own error messages mean, and what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Mishap", "mishap_of"]

Advice = tuple[str, str]  # what to do, and the code to write


@dataclass(frozen=True)
class Mishap:
    """A kind of error: what it means in one sentence, and what to try."""

    kind: str
    says: str
    advice: tuple[Advice, ...] = ()


_SAME_DEVICE = (
    "Put model and batch on one device.",
    "device = next(model.parameters()).device\nx, y = x.to(device), y.to(device)",
)
_SAME_TYPE = ("Give the model inputs of its own type.", "x = x.to(next(model.parameters()).dtype)")
_CARRIED = (
    "Cut what is carried from one batch to the next off its graph.",
    "hidden = hidden.detach()  # or, for an LSTM: tuple(h.detach() for h in hidden)",
)
_FRESH = ("Run the forward pass again before every backward.", "loss = loss_fn(model(x), y)\nloss.backward()")
_NOT_IN_PLACE = (
    "Write a new tensor instead of changing the old one.",
    "x = x + y          # not x += y\nx = x.relu()       # not x.relu_(), nor nn.ReLU(inplace=True)\n"
    "x = torch.where(mask, value, x)  # not x[mask] = value",
)

# kind, what to look for in the message, what it means, what to try; the first that matches counts
_RULES: tuple[tuple[str, str, str, tuple[Advice, ...]], ...] = (
    (
        "device",
        r"same device|not on the expected device|should be the same.*cuda|cuda\.\w*Tensor.*should be the same",
        "values on different devices met",
        (_SAME_DEVICE, ("Tensors made in forward need the device, too.", "torch.zeros(n, device=x.device)")),
    ),
    (
        "dtype",
        r"must have the same dtype|type \(.*\) and (bias|weight) type|scalar types?|expected.*dtype|"
        r"can't be cast to the desired|Expected floating point type",
        "values of different types met",
        (_SAME_TYPE, ("Class ids are int64, and all other targets are floats.", "y = y.long()  # or y.float()")),
    ),
    (
        "label",
        r"Target (-?\d+) is out of bounds|target should be between 0 and 1|Class values must be",
        "a label is outside of what the loss can take",
        (
            ("Count the classes from 0, and give the last layer one output for each.", "classes = int(y.max()) + 1"),
            ("Labels that mean “ignore this” are named to the loss.", "nn.CrossEntropyLoss(ignore_index=-1)"),
        ),
    ),
    (
        "probability",
        r"elements of input should be between 0 and 1",
        "BCELoss takes probabilities and got raw scores",
        (("Let the loss apply the sigmoid.", "loss = nn.functional.binary_cross_entropy_with_logits(output, y)"),),
    ),
    (
        "embedding",
        r"index out of range in self",
        "an id is larger than the table it is looked up in, or negative",
        (("Make the table large enough for every id.", "nn.Embedding(int(ids.max()) + 1, dim)"),),
    ),
    (
        "index",
        r"index (-?\d+) is out of bounds",
        "an index is larger than the dimension that it is looked up in",
        (("Look at the largest index and at the size.", "print(index.max(), values.shape)"),),
    ),
    (
        "in-place",
        r"modified by an inplace operation",
        "a value that the backward pass needs was changed in place after it was used",
        (_NOT_IN_PLACE, ("Let torch name the operation.", "torch.autograd.set_detect_anomaly(True, check_nan=False)")),
    ),
    (
        "in-place",
        r"leaf Variable that requires grad is being used in an in-place",
        "a parameter, or an input that wants a gradient, was changed in place while gradients were recorded",
        (("Change parameters where no gradient is recorded.", "with torch.no_grad():\n    weight.mul_(0.5)"),),
    ),
    (
        "nan",
        r"returned nan values|non-finite|\bnan\b|\binf\b",
        "a number that is not finite was made",
        (
            ("Find the first module that makes it.", 'nbdebug.tap(model, "**").expect(finite=True)'),
            ("Keep away from where the derivative is infinite.", "torch.sqrt(x + 1e-8), torch.log(x.clamp_min(1e-8))"),
        ),
    ),
    (
        "no-grad",
        r"does not require grad and does not have a grad_fn",
        "nothing behind this loss wants a gradient, so there is nothing to go back through",
        (("Compute the loss from the model's own output, with gradients on.", "loss = loss_fn(model(x), y)"),),
    ),
    (
        "second-backward",
        r"backward through the graph a second time",
        "the backward pass reached a graph that an earlier backward pass has used up",
        (_CARRIED, _FRESH),
    ),
    (
        "not-a-number",
        r"implicitly created only for scalar outputs",
        "backward needs one number, and the loss is a tensor of several",
        (("Reduce the loss to one number.", "loss = loss.mean()"),),
    ),
    (
        "batch-of-one",
        r"more than 1 value per channel when training",
        "batch normalisation cannot take statistics of a single value",
        (("Leave out the last, smaller batch.", "DataLoader(data, batch_size, shuffle=True, drop_last=True)"),),
    ),
    (
        "not-a-tensor",
        r"must be Tensor, not tuple|'tuple' object has no attribute",
        "a module gave a tuple (recurrent layers give outputs and state, attention outputs and weights)",
        (("Take the part that you mean.", "x, state = self.lstm(x)"),),
    ),
    (
        "not-a-tensor",
        r"must be Tensor, not (numpy\.ndarray|list|float|int|str)",
        "a module was given something that is no tensor",
        (("Make a tensor of it.", "x = torch.as_tensor(x, dtype=torch.float32)"),),
    ),
    (
        "needs-detach",
        r"Can't call numpy\(\) on Tensor that requires grad|support the deepcopy protocol",
        "this value is a part of a graph",
        (("Take its values without the graph.", "values = x.detach().cpu().numpy()"),),
    ),
    (
        "checkpoint",
        r"Error\(s\) in loading state_dict",
        "the checkpoint was made by another model, or its names have a prefix",
        (
            (
                "Compare names and shapes; take a wrapper's prefix off.",
                'state = {key.removeprefix("module."): value for key, value in state.items()}',
            ),
        ),
    ),
    (
        "memory",
        r"out of memory",
        "the device has no room for what this step keeps",
        (
            ("Make the batch smaller, and step every few batches.", "(loss / 4).backward()"),
            ("Keep no graphs of earlier steps.", "total += loss.item()"),
        ),
    ),
    (
        "device-assert",
        r"device-side assert",
        "an index or a label on the GPU is out of range; the line shown is not where it happened",
        (("Run the same batch on the CPU, which says which.", "loss_fn(model.cpu()(x.cpu()), y.cpu())"),),
    ),
    (
        "shape",
        r"shapes cannot be multiplied|must match|invalid for input of size|to have \d+ channels|equal size|"
        r"batch_size \(\d+\)|must be the same as input size|size mismatch|expected input with shape|must be equal to|"
        r"should contain \d+ elements|multi-target not supported|Expected size|expected \dD|Expected .*\dD|"
        r"not compatible with input tensor|embedding dimension|too small|Kernel size",
        "shapes met that do not fit",
        (),
    ),
)


def mishap_of(error: str) -> Mishap | None:
    """Recognise an error by its message."""
    for kind, pattern, says, advice in _RULES:
        if re.search(pattern, error, flags=re.IGNORECASE | re.DOTALL):
            return Mishap(kind, says, advice)
    return None
