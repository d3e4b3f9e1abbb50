"""`thpdiag mcp`: the results of bundles as tools of an agent, over the Model Context Protocol.

`server` alone imports the SDK (`thpdiag[mcp]`); what the tools answer is in `answers`, what they may read in `bundles`.
"""
