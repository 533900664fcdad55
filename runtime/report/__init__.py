"""Reports as HTML pages that ask nothing of the network: of a simulation, and of a study."""

from runtime.report.page import render
from runtime.report.study import Fact, Sheet, Study, render_study

__all__ = ["Fact", "Sheet", "Study", "render", "render_study"]
