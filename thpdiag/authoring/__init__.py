"""For those who write rules: skeletons, the catalogue of all rules as a page, and what no rule covers."""
