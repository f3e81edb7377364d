"""The KV cache: keys and values of the tokens read so far, so that none is computed again."""

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils.predict.configs import TransformerConfig


class LayerCache:
    """One layer's keys and values, of the KV heads alone; None before the first token."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def extended(
        self, keys: Float[Tensor, "B KV T W"], values: Float[Tensor, "B KV T W"]
    ) -> tuple[Float[Tensor, "B KV N W"], Float[Tensor, "B KV N W"]]:
        """Append those of new tokens; returns the keys and the values of all tokens so far."""
        if self.keys is not None:
            keys = torch.cat((self.keys, keys), dim=2)
            values = torch.cat((self.values, values), dim=2)
        self.keys, self.values = keys.contiguous(), values.contiguous()  # no view of all queries
        return self.keys, self.values


class KVCache:
    """What each layer of one model keeps of the tokens read so far; a new one is empty.

    It holds 2 · layers · kv_width numbers per token and sequence, as `predict.kv_cache` counts.
    Keys are kept rotated, as their position asks for: they are right only while it stays the same.
    """

    def __init__(self, config: TransformerConfig) -> None:
        self.layers = [LayerCache() for _ in range(config.layers)]

    @property
    def tokens(self) -> int:
        """How many tokens of each sequence it holds."""
        keys = self.layers[0].keys
        return 0 if keys is None else keys.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values."""
        kept = [layer for layer in self.layers if layer.keys is not None]
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in kept)

    def clear(self) -> None:
        """Forget all tokens."""
        for layer in self.layers:
            layer.keys = layer.values = None
