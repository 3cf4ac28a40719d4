"""AdamW for adapters in bfloat16."""

from __future__ import annotations

import torch


class Optimiser:
    """AdamW on float32 copies of bfloat16 weights."""

    def __init__(self, weights: list[torch.nn.Parameter]) -> None:
        self._weights = weights
        self._exact = [weight.detach().float() for weight in weights]
        self._adam = torch.optim.AdamW(self._exact, weight_decay=0.0)
        self._sums = [torch.zeros_like(exact) for exact in self._exact]
        self._remembered = 0

    def step(self, rate: float) -> None:
        """Move the weights along their gradients, and forget these."""
        for weight, exact in zip(self._weights, self._exact, strict=True):
            assert weight.grad is not None, "every adapter is used"
            exact.grad = weight.grad.float()
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(self._exact, 1.0)
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        with torch.no_grad():
            for weight, exact in zip(self._weights, self._exact, strict=True):
                weight.copy_(exact)

    def remember(self) -> None:
        """Let the weights as they are now count in ``average``."""
        for total, exact in zip(self._sums, self._exact, strict=True):
            total += exact
        self._remembered += 1

    @torch.no_grad()
    def average(self) -> None:
        """Set the weights to the mean of those remembered."""
        for weight, total in zip(self._weights, self._sums, strict=True):
            weight.copy_(total / self._remembered)
