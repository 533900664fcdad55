"""Numbers as people read them. Every function is pure and the same on every machine."""

from typing import Final

MISSING: Final = "\N{EN DASH}"
_TO: Final = "\N{EN DASH}"
_MINUS: Final = "\N{MINUS SIGN}"
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_SCALES: Final = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))


def count(value: float) -> str:
    """A whole number with separators: 1,234,567. A mean keeps one decimal below 100."""
    if value != int(value) and abs(value) < 100:
        return f"{value:.1f}"
    return f"{round(value):,}"


def counted(number: int, noun: str) -> str:
    """So many of something: 1 request, 2,000 requests."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(value: float) -> str:
    """Three digits and a unit prefix: 1.23 M. Below 1,000 as it is."""
    for scale, suffix in _SCALES:
        if abs(value) >= scale:
            return _digits(value / scale) + suffix
    return _digits(value) if value != int(value) else str(int(value))


def share(value: float) -> str:
    """A fraction as a percentage with one decimal: 0.6213 is 62.1 %."""
    return f"{value * 100:.1f} %"


def duration(value_s: float) -> str:
    """Seconds with three digits, in the unit that fits: 850 µs, 41.2 ms, 1.93 s, 14.2 min."""
    size = abs(value_s)
    if size == 0:
        return "0 s"
    if size < 0.9995e-3:
        return _digits(value_s * 1e6) + " µs"
    if size < 0.9995:
        return _digits(value_s * 1e3) + " ms"
    if size < 600:
        return _digits(value_s) + " s"
    return _digits(value_s / 60) + " min" if size < 36_000 else _digits(value_s / 3600) + " h"


def rate(value: float) -> str:
    """Something a second, three digits or all whole ones: 0.512, 23.4, 4,745."""
    return _digits(value)


def times(value: float) -> str:
    """A ratio with three digits and a multiplication sign: 0.31, 4.25 or 1,204 times."""
    return _digits(value) + _TIMES


def change(ratio: float) -> str:
    """A ratio as a change people say: -77.4 %, +36.0 %, from ten times on 12.3 times."""
    if ratio >= 10:
        return times(ratio)
    sign = "+" if ratio >= 1 else _MINUS
    return f"{sign}{abs(ratio - 1) * 100:.1f} %"


def span(low: str, high: str) -> str:
    """From one number to another, both as text; a unit that they share is said once."""
    number, _, unit = low.partition(" ")
    return f"{number if unit == high.partition(' ')[2] else low}{_TO}{high}"


def _digits(value: float) -> str:
    """Three significant digits, but every whole digit."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.9995 else f"{value:.3g}"
