"""Who may do what on the upload page, and what no request may do.

`gate.protect` puts the parts around an application, in the order in which a request meets them:

    http_protocol  connections of an address; the head of a request while it comes in: its size and its time
    audit          one line per request in the log of the server, without secrets
    headers        what a browser may do with an answer
    gate           requests that no honest client sends, how much a route takes that is no upload, who it is (tokens,
                   sessions, a proxy), whether the page is ours (origins, CSRF), the scopes

Before it starts, `principals.check_access` refuses to listen where anybody could come in.
"""
