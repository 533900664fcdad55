"""Where a policy stands between recency and clairvoyance, at one capacity."""

from dataclasses import dataclass

from bench.errors import expect
from bench.harness.report import Bound, Figure
from runtime.lab import CapacityCurve, PageTrace, optimal_hits


@dataclass(frozen=True, slots=True)
class EvictionPlace:
    """Hit rates at one capacity.

    Attributes:
        name: Which capacity, of which requests.
        asked: Blocks that are asked for.
        lru: Hit rate of LRU.
        optimum: Hit rate of clairvoyant eviction in the same order.
    """

    name: str
    asked: int
    lru: float
    optimum: float

    @classmethod
    def of(cls, name: str, pages: PageTrace, curve: CapacityCurve, num_blocks: int) -> "EvictionPlace":
        """Of requests whose pages are blocks, and LRU's curve over them, where so many can be kept."""
        asked = int(pages.prompt_tokens.sum())
        optimum = int(optimal_hits(pages, num_blocks).sum()) / asked
        return cls(name, asked, float(curve.hit_rate(num_blocks)), optimum)

    def share(self, hit_rate: float) -> float:
        """Share of the gap that a hit rate closes; 0 where there is no gap."""
        gap = self.optimum - self.lru
        return (hit_rate - self.lru) / gap if gap else 0.0

    def check(self, policy: str, found: int) -> None:
        """LRU finds what its curve says, and nobody more than the optimum.

        Raises:
            WrongResult: Not so.
        """
        if policy == "lru":
            expect(f"blocks that LRU finds, {self.name}", found, round(self.lru * self.asked))
        expect("no policy finds more than the optimum", found <= self.optimum * self.asked + 0.5, wanted=True)

    def figure(self, policy: str, found: int) -> Figure:
        """What a policy found, beside the optimum."""
        return Figure(
            name=f"{policy}, {self.name}",
            unit="share of blocks",
            samples={"value": [found / self.asked]},
            bound=Bound(name="clairvoyant", samples={"value": [self.optimum]}),
        )

    def note(self, policy: str, found: int) -> str:
        """The same in words, with the share of the gap."""
        return (
            f"{self.name}, {policy}: LRU {self.lru:.4f}, this {found / self.asked:.4f}, optimum "
            f"{self.optimum:.4f}, {self.share(found / self.asked):.1%} of the gap."
        )
