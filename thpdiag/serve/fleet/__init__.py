"""The fleet over all cases: the latest of what is known of each host, made in a guarded child when somebody looks.

latest   which hosts of which cases, from the database
spool    their rows in a file, which the child reads
making   the child: a store of triage, and of that the page, the files and the list
kept     what was made, kept in the data folder until a case comes or goes
"""
