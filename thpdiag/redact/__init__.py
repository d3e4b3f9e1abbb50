"""Results without what belongs to the customer: hosts, addresses, people, paths, programs and functions of their own.

What is known to be no secret stays (allow lists in `lists/`); every other word becomes a pseudonym, the same one for
the same word wherever it stands. It works on the result document, so that all that is made from it is clean.
"""
