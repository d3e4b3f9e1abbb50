"""Who may do what on the upload page, and what no request may do.

`around.py` puts the parts around an application, in the order in which a request meets them:

    wire.py      connections of an address; the head of a request, while it comes in: its size and its time
    log.py       one line per request, without secrets
    headers.py   what a browser may do with an answer
    shapes.py    requests that no honest client sends
    gate.py      who it is (tokens, sessions, a proxy), whether the page is ours (origins, csrf), what they may (routes)
    bodies.py    how much a route takes that is no upload

Before it starts, `modes.check` refuses to listen where anybody could come in. For pages there are `csrf.issue`,
`signing.signed_in`, and the headers of each kind of answer in headers.py; for tokens `tokens.mint`.
"""
