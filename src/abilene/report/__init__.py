"""Figures, and the page that explains a result."""
