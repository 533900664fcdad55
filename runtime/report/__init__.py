"""The report of a simulation as one HTML page that asks nothing of the network."""

from runtime.report.page import render

__all__ = ["render"]
