"""Reports that compare runs with the paper's results: tables with intervals, figures and an HTML page."""
