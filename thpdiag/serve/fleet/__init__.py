"""The fleet: what all cases have in common, as `thpdiag triage` shows it.

rows    which hosts of which cases it consists of, by the database
files   what is made of them in a child: the page of triage, its files for programs, a list
cache   what was made, kept in the data folder and made again when other cases are there
"""
