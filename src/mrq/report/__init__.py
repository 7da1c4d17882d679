"""Runs laid beside the paper's results: numbers with their intervals, figures, pages."""
