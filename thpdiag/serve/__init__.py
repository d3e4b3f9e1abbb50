"""The upload page of a team and its API: access/ authorizes requests, uploads/ receives, storage/ keeps bundles."""
