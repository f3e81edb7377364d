"""The configuration of a decoder-only transformer: all that its costs depend on."""

from dataclasses import dataclass

from course_utils.arguments import choice, count, one_of, shown

STYLES = ("gpt", "llama")


def _must_divide(what: str, part: int, whole: str, size: int) -> None:
    if size % part:
        raise ValueError(f"{what} must divide {whole}, got {part} and {size}")


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a transformer, in one of two styles.

    'gpt': learned positions, LayerNorm, biases, a feed-forward layer of two matmuls with GELU.
    'llama': rotary positions, RMSNorm, no biases, three matmuls with SiLU. There are `heads` query
    heads; with fewer `kv_heads`, each of these serves a group of them (grouped-query attention).
    `tied` says that the output layer shares the embedding's weight. A head is width / heads wide
    unless `head_dim` says otherwise. Raises TypeError for what is not a number and ValueError for
    sizes that do not divide.
    """

    style: str
    vocabulary: int
    context: int
    layers: int
    width: int
    heads: int
    hidden: int
    kv_heads: int | None = None
    tied: bool = True
    head_dim: int | None = None

    def __post_init__(self) -> None:
        one_of("style", self.style, STYLES)
        choice("tied", self.tied)
        if self.kv_heads is None:
            object.__setattr__(self, "kv_heads", self.heads)
        given = ("head_dim",) if self.head_dim is not None else ()
        for name in (
            "vocabulary",
            "context",
            "layers",
            "width",
            "heads",
            "hidden",
            "kv_heads",
            *given,
        ):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        _must_divide("kv_heads", self.kv_heads, "heads", self.heads)
        if not given:
            _must_divide("heads", self.heads, "width", self.width)
        if self.style == "llama" and not given:
            _must_divide("2 · heads", 2 * self.heads, "width", self.width)
        if self.style == "llama" and self.head_width % 2:
            raise ValueError(f"head_dim must be even, to be rotated in pairs, got {self.head_dim}")

    @property
    def head_width(self) -> int:
        """Numbers in one head's query for one token."""
        return self.width // self.heads if self.head_dim is None else self.head_dim

    @property
    def q_width(self) -> int:
        """Numbers in one token's queries, all heads of a layer together."""
        return self.heads * self.head_width

    @property
    def kv_width(self) -> int:
        """Numbers in one token's keys, all KV heads of a layer together; values have as many."""
        return self.kv_heads * self.head_width


PRESETS = {
    # Radford et al. 2019; the sizes of OpenAI's released weights.
    "GPT-2 small": TransformerConfig("gpt", 50257, 1024, 12, 768, 12, 4 * 768),
    # Brown et al. 2020, table 2.1; published as 175 billion.
    "GPT-3": TransformerConfig("gpt", 50257, 2048, 96, 12288, 96, 4 * 12288),
    # Grattafiori et al. 2024, table 3, and the released configurations.
    "Llama-3 8B": TransformerConfig(
        "llama", 128256, 8192, 32, 4096, 32, 14336, kv_heads=8, tied=False
    ),
    "Llama-3 70B": TransformerConfig(
        "llama", 128256, 8192, 80, 8192, 64, 28672, kv_heads=8, tied=False
    ),
    # The course's own: bytes as tokens.
    "small": TransformerConfig("gpt", 256, 64, 3, 96, 2, 4 * 96),
}


def preset(name: str) -> TransformerConfig:
    """A known configuration by its name; the error lists the names."""
    return PRESETS[one_of("name", name, PRESETS)]


def checked(config: object) -> TransformerConfig:
    """Return `config` if it is a `TransformerConfig`; else TypeError."""
    if not isinstance(config, TransformerConfig):
        example = 'predict.preset("GPT-2 small")'
        raise TypeError(f"config must be a TransformerConfig, as {example} is, got {shown(config)}")
    return config
