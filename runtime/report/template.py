"""Fills templates: everything a page needs besides its own words stands in it."""

from collections.abc import Sequence
from typing import Any

import jinja2
import msgspec

from runtime.report.figure import Figure
from runtime.report.palette import THEMES


def fill(name: str, figures: Sequence[Figure], **values: Any) -> str:
    """A page that asks nothing of the network: scripts, styles and data inside.

    Args:
        name: File of the template.
        figures: Its plots.
        values: What else the template names; it escapes them.

    Returns:
        The page, some 5 MB, nearly all of it Plotly.js.
    """
    from plotly.offline import get_plotlyjs  # only this function needs it, and it loads slowly

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("runtime.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(
        figures=figures,
        figures_json=_script_json(
            {each.name: {"data": each.data, "layout": each.layout} for each in figures}
        ),
        themes=THEMES,
        themes_json=_script_json(THEMES),
        plotly_js=get_plotlyjs(),
        **values,
    )


def _script_json(value: Any) -> str:
    """JSON without any character by which it could end the script element it stands in."""
    text = msgspec.json.encode(value, order="deterministic").decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
