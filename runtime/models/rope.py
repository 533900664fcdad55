"""Rotary positions (Su et al., "RoFormer", 2021) and the ways in use to stretch them for longer contexts.

A cached key is rotated once and read by every later step, so the frequencies must never depend on how long a
sequence is at the moment: each scaling gives one set of frequencies for the life of the model.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from radixcache.errors import InvalidConfig


class RopeScaling(Protocol):
    """Makes the frequencies of one model."""

    @property
    def attention_factor(self) -> float:
        """What cosines and sines are multiplied by."""
        ...

    def frequencies(self, base: float, dim: int, max_context: int) -> Tensor:
        """Radians a position for each of `dim // 2` pairs, float32 on the CPU."""
        ...


def _plain(base: float, dim: int) -> Tensor:
    # In float32 throughout: the models were trained with these very roundings.
    exponents = torch.arange(0, dim, 2, dtype=torch.float32) / dim
    return torch.reciprocal(torch.pow(base, exponents))


def _require(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise InvalidConfig(f"rope scaling: {name} must be at least {least:g}, not {value}")


@dataclass(frozen=True, slots=True)
class Unscaled:
    """The frequencies as they are: base to the power of -2i/dim."""

    @property
    def attention_factor(self) -> float:
        """1."""
        return 1.0

    def frequencies(self, base: float, dim: int, max_context: int) -> Tensor:
        """See `RopeScaling`."""
        return _plain(base, dim)


@dataclass(frozen=True, slots=True)
class Linear:
    """Position interpolation (Chen et al., 2023): every frequency divided by `factor`."""

    factor: float

    def __post_init__(self) -> None:
        _require("factor", self.factor, 1)

    @property
    def attention_factor(self) -> float:
        """1."""
        return 1.0

    def frequencies(self, base: float, dim: int, max_context: int) -> Tensor:
        """See `RopeScaling`."""
        return _plain(base, dim) / self.factor


@dataclass(frozen=True, slots=True)
class DynamicNtk:
    """NTK-aware scaling: a larger base for sequences beyond the trained length.

    Elsewhere the base grows with the sequence, which would leave cached keys rotated by a base of the past.
    Here it is that of a sequence of `max_context` tokens, always; up to the trained length both are the plain
    frequencies.

    Attributes:
        factor: How strongly the base grows.
        trained_context: Tokens up to which nothing is scaled.
    """

    factor: float
    trained_context: int

    def __post_init__(self) -> None:
        _require("factor", self.factor, 1)
        _require("trained_context", self.trained_context, 1)

    @property
    def attention_factor(self) -> float:
        """1."""
        return 1.0

    def frequencies(self, base: float, dim: int, max_context: int) -> Tensor:
        """See `RopeScaling`.

        Raises:
            InvalidConfig: `dim` is 2, where a change of base changes nothing.
        """
        if dim <= 2:
            raise InvalidConfig(f"rope scaling: dynamic NTK needs heads wider than 2, not {dim}")
        length = max(max_context, self.trained_context)
        stretch = self.factor * length / self.trained_context - (self.factor - 1)
        return _plain(base * stretch ** (dim / (dim - 2)), dim)


@dataclass(frozen=True, slots=True)
class Llama3:
    """As in Llama 3.1: long wavelengths divided by `factor`, short ones kept, a ramp between them.

    Attributes:
        factor: Divides the frequencies of wavelengths above `trained_context / low_freq_factor`.
        low_freq_factor: Where the ramp ends, in wavelengths a trained context.
        high_freq_factor: Where the ramp begins.
        trained_context: Context of the model before it was stretched, tokens.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    trained_context: int

    def __post_init__(self) -> None:
        _require("factor", self.factor, 1)
        _require("trained_context", self.trained_context, 1)
        if not self.high_freq_factor > self.low_freq_factor > 0:
            raise InvalidConfig(
                "rope scaling: 0 < low_freq_factor < high_freq_factor is needed, not "
                f"{self.low_freq_factor} and {self.high_freq_factor}"
            )

    @property
    def attention_factor(self) -> float:
        """1."""
        return 1.0

    def frequencies(self, base: float, dim: int, max_context: int) -> Tensor:
        """See `RopeScaling`."""
        plain = _plain(base, dim)
        turns = self.trained_context * plain / (2 * math.pi)
        ramp = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        kept = ramp.clamp(0, 1)
        return (1 - kept) * plain / self.factor + kept * plain


@dataclass(frozen=True, slots=True)
class Yarn:
    """YaRN (Peng et al., 2023): interpolation by frequency band, and a temperature on attention.

    Attributes:
        factor: Divides the low frequencies.
        trained_context: Context of the model before it was stretched, tokens.
        attention_factor: What cosines and sines are multiplied by.
        beta_fast: Turns in the trained context above which a frequency is kept.
        beta_slow: Turns below which it is divided.
        truncate: Round the ends of the ramp outwards to whole pairs.
    """

    factor: float
    trained_context: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        _require("factor", self.factor, 1)
        _require("trained_context", self.trained_context, 1)
        if not self.beta_fast > self.beta_slow > 0:
            raise InvalidConfig(
                "rope scaling: 0 < beta_slow < beta_fast is needed, not "
                f"{self.beta_slow} and {self.beta_fast}"
            )

    def frequencies(self, base: float, dim: int, max_context: int) -> Tensor:
        """See `RopeScaling`."""

        def pair_that_turns(times: float) -> float:
            return dim * math.log(self.trained_context / (times * 2 * math.pi)) / (2 * math.log(base))

        low, high = pair_that_turns(self.beta_fast), pair_that_turns(self.beta_slow)
        if self.truncate:
            low, high = float(math.floor(low)), float(math.ceil(high))
        low, high = max(low, 0.0), min(high, dim - 1.0)
        ramp = (torch.arange(dim // 2, dtype=torch.float32) - low) / max(high - low, 0.001)
        divided = ramp.clamp(0, 1)
        plain = _plain(base, dim)
        return plain / self.factor * divided + plain * (1 - divided)


@dataclass(frozen=True, slots=True)
class Divided:
    """Each frequency divided by a number of its own, as GGUF files state the scaling of Llama 3.1.

    Attributes:
        divisors: One for each pair.
    """

    divisors: tuple[float, ...]

    def __post_init__(self) -> None:
        for divisor in self.divisors:
            _require("divisor", divisor, 1e-6)

    @property
    def attention_factor(self) -> float:
        """1."""
        return 1.0

    def frequencies(self, base: float, dim: int, max_context: int) -> Tensor:
        """See `RopeScaling`.

        Raises:
            InvalidConfig: There are more or fewer divisors than pairs.
        """
        if len(self.divisors) != dim // 2:
            raise InvalidConfig(f"{len(self.divisors)} rope divisors for {dim // 2} pairs of a head")
        return _plain(base, dim) / torch.tensor(self.divisors, dtype=torch.float32)


class Rotation:
    """Turns heads by their positions; made once for a model."""

    def __init__(
        self, scaling: RopeScaling, *, base: float, dim: int, max_context: int, device: torch.device
    ) -> None:
        self._frequencies = scaling.frequencies(base, dim, max_context).to(device)
        self._factor = scaling.attention_factor

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """What `rotate` takes for int64 positions `[nnz]`; once a step.

        Returns:
            Cosines and signed sines, float32 `[nnz, 1, head_dim]` each.
        """
        angles = torch.outer(positions.to(torch.float32), self._frequencies).unsqueeze(1)
        cos, sin = angles.cos() * self._factor, angles.sin() * self._factor
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`[nnz, heads, head_dim]` turned: number i of a head forms a pair with number i + head_dim / 2.

    Computed in float32, returned in the dtype that came in.
    """
    partners = heads.roll(heads.shape[-1] // 2, dims=-1)
    return (heads * cos).addcmul_(partners, sin).to(heads.dtype)
