"""`thpdiag mcp`: results of bundles as tools for an agent, over the Model Context Protocol.

Only `server` imports the SDK (`thpdiag[mcp]`); `answers` makes the answers, `bundles` controls access to files.
"""
