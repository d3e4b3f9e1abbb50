"""What programs ask: jobs, cases, files, the state of the server; under /api/v1, /healthz and /metrics."""
