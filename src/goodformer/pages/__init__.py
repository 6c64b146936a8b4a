"""Results as HTML pages: a fitted model, its predictions for a file, a comparison of runs.

Every page is one file that needs no other: style, script and drawings are inside it.
"""
