"""Redaction: results without the customer's hosts, addresses, people, paths, programs and functions.

Words on the allow lists in `lists/` stay; every other word becomes a pseudonym, the same one for the same word in all
places. Redaction works on the result document, so that everything made from it is redacted.
"""
