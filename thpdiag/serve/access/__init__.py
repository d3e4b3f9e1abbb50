"""Authentication and authorization of the upload page.

`gate.protect` wraps an application in middleware. A request passes, in this order:

    http    limits on connections per address and on the size and duration of a request head; security headers
    audit   one line per request in the server log, without secrets
    gate    malformed requests, size of bodies that are not uploads, identity (token, session, proxy), origin and CSRF,
            scopes

`principals.check_access` refuses a configuration that would let anyone in, before the server starts.
"""
