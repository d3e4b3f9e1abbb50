"""Charts of a page: SVG made from parts of a completed result document; complete without any script.

Looks stand in presentation attributes, since some viewers of reports drop every style (Jenkins does); the style of the
page only refines them. Plots are stretched to the width of the page, so text never stands inside of one.
"""
