"""Charts of a page: SVG made from parts of a completed result document, complete without scripts.

Styles are presentation attributes, since some viewers of reports drop all CSS (Jenkins does); the style sheet of the
page only refines them. Plots are stretched to the width of the page, so there is no text inside a plot.
"""
