"""The API for programs: jobs, cases, files and the state of the server; under /api/v1, /healthz and /metrics."""
