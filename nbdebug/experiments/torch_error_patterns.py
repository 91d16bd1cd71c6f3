"""What torch's own error messages mean, and what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ErrorPattern", "error_pattern"]

Advice = tuple[str, str]  # what to do, and the code to write


@dataclass(frozen=True)
class ErrorPattern:
    """A kind of error: what it means in one sentence, and what to try."""

    kind: str
    says: str
    advice: tuple[Advice, ...] = ()


_SAME_DEVICE = (
    "Move model and batch to the same device.",
    "device = next(model.parameters()).device\nx, y = x.to(device), y.to(device)",
)
_SAME_TYPE = ("Convert the inputs to the dtype of the model.", "x = x.to(next(model.parameters()).dtype)")
_CARRIED = (
    "Detach the state that is carried from one batch to the next.",
    "hidden = hidden.detach()  # or, for an LSTM: tuple(h.detach() for h in hidden)",
)
_FRESH = ("Run the forward pass again before every backward pass.", "loss = loss_fn(model(x), y)\nloss.backward()")
_NOT_IN_PLACE = (
    "Create a new tensor instead of modifying the old one.",
    "x = x + y          # not x += y\nx = x.relu()       # not x.relu_(), nor nn.ReLU(inplace=True)\n"
    "x = torch.where(mask, value, x)  # not x[mask] = value",
)

# kind, what to look for in the message, what it means, what to try; the first that matches counts
_RULES: tuple[tuple[str, str, str, tuple[Advice, ...]], ...] = (
    (
        "device",
        r"same device|not on the expected device|should be the same.*cuda|cuda\.\w*Tensor.*should be the same",
        "the tensors are on different devices",
        (_SAME_DEVICE, ("Create tensors in forward on the device of the inputs.", "torch.zeros(n, device=x.device)")),
    ),
    (
        "dtype",
        r"must have the same dtype|type \(.*\) and (bias|weight) type|scalar types?|expected.*dtype|"
        r"can't be cast to the desired|Expected floating point type",
        "the tensors have different dtypes",
        (_SAME_TYPE, ("Use int64 for class indices and floats for all other targets.", "y = y.long()  # or y.float()")),
    ),
    (
        "label",
        r"Target (-?\d+) is out of bounds|target should be between 0 and 1|Class values must be",
        "a label is outside the range that the loss accepts",
        (
            ("Number the classes from 0, and give the last layer one output per class.", "classes = int(y.max()) + 1"),
            ("Set `ignore_index` for labels that should be ignored.", "nn.CrossEntropyLoss(ignore_index=-1)"),
        ),
    ),
    (
        "probability",
        r"elements of input should be between 0 and 1",
        "`BCELoss` expects probabilities but receives logits",
        (
            (
                "Use the loss that applies the sigmoid itself.",
                "loss = nn.functional.binary_cross_entropy_with_logits(output, y)",
            ),
        ),
    ),
    (
        "embedding",
        r"index out of range in self",
        "an index is negative or not smaller than num_embeddings",
        (("Make num_embeddings larger than every index.", "nn.Embedding(int(ids.max()) + 1, dim)"),),
    ),
    (
        "index",
        r"index (-?\d+) is out of bounds",
        "an index exceeds the size of the dimension that it indexes",
        (("Compare the largest index with the size.", "print(index.max(), values.shape)"),),
    ),
    (
        "in-place",
        r"modified by an inplace operation",
        "a tensor that the backward pass needs was modified in place",
        (
            _NOT_IN_PLACE,
            (
                "Enable anomaly detection to find the operation.",
                "torch.autograd.set_detect_anomaly(True, check_nan=False)",
            ),
        ),
    ),
    (
        "in-place",
        r"leaf Variable that requires grad is being used in an in-place",
        "a leaf tensor that requires grad was modified in place outside torch.no_grad()",
        (("Modify parameters under `torch.no_grad()`.", "with torch.no_grad():\n    weight.mul_(0.5)"),),
    ),
    (
        "nan",
        r"returned nan values|non-finite|\bnan\b|\binf\b",
        "an operation produced NaN or Inf",
        (
            ("Find the first module that produces it.", 'nbdebug.tap(model, "**").expect(finite=True)'),
            ("Avoid arguments where the derivative is infinite.", "torch.sqrt(x + 1e-8), torch.log(x.clamp_min(1e-8))"),
        ),
    ),
    (
        "no-grad",
        r"does not require grad and does not have a grad_fn",
        "the loss does not depend on any tensor that requires grad",
        (("Compute the loss from the model's output, with gradients enabled.", "loss = loss_fn(model(x), y)"),),
    ),
    (
        "second-backward",
        r"backward through the graph a second time",
        "the backward pass reached a part of the graph that an earlier backward pass has freed",
        (_CARRIED, _FRESH),
    ),
    (
        "not-a-number",
        r"implicitly created only for scalar outputs",
        "`backward()` requires a scalar, but the loss has several elements",
        (("Reduce the loss to a scalar.", "loss = loss.mean()"),),
    ),
    (
        "batch-of-one",
        r"more than 1 value per channel when training",
        "BatchNorm cannot compute statistics of a single value per channel",
        (("Drop the incomplete last batch.", "DataLoader(data, batch_size, shuffle=True, drop_last=True)"),),
    ),
    (
        "not-a-tensor",
        r"must be Tensor, not tuple|'tuple' object has no attribute",
        "a module returned a tuple (recurrent layers return output and state, attention returns output and weights)",
        (("Unpack the tuple.", "x, state = self.lstm(x)"),),
    ),
    (
        "not-a-tensor",
        r"must be Tensor, not (numpy\.ndarray|list|float|int|str)",
        "a module received an argument that is not a tensor",
        (("Convert it to a tensor.", "x = torch.as_tensor(x, dtype=torch.float32)"),),
    ),
    (
        "needs-detach",
        r"Can't call numpy\(\) on Tensor that requires grad|support the deepcopy protocol",
        "the tensor is part of an autograd graph",
        (("Detach it from the graph.", "values = x.detach().cpu().numpy()"),),
    ),
    (
        "checkpoint",
        r"Error\(s\) in loading state_dict",
        "the checkpoint comes from another model, or its keys have a prefix",
        (
            (
                "Compare keys and shapes; remove a wrapper's prefix.",
                'state = {key.removeprefix("module."): value for key, value in state.items()}',
            ),
        ),
    ),
    (
        "memory",
        r"out of memory",
        "the step needs more memory than the device has",
        (
            ("Use a smaller batch with gradient accumulation.", "(loss / 4).backward()"),
            ("Do not keep the autograd graphs of earlier steps.", "total += loss.item()"),
        ),
    ),
    (
        "device-assert",
        r"device-side assert",
        "an index or a label on the GPU is out of range; the error is reported later than it occurred",
        (("Run the same batch on the CPU to get the exact error.", "loss_fn(model.cpu()(x.cpu()), y.cpu())"),),
    ),
    (
        "shape",
        r"shapes cannot be multiplied|must match|invalid for input of size|to have \d+ channels|equal size|"
        r"batch_size \(\d+\)|must be the same as input size|size mismatch|expected input with shape|must be equal to|"
        r"should contain \d+ elements|multi-target not supported|Expected size|expected \dD|Expected .*\dD|"
        r"not compatible with input tensor|embedding dimension|too small|Kernel size",
        "the shapes do not match",
        (),
    ),
)


def error_pattern(error: str) -> ErrorPattern | None:
    """Recognize an error by its message."""
    for kind, pattern, says, advice in _RULES:
        if re.search(pattern, error, flags=re.IGNORECASE | re.DOTALL):
            return ErrorPattern(kind, says, advice)
    return None
