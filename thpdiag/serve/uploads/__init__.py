"""Takes bundles over HTTP: resumable (tus 1.0.0), as the body of a PUT, as a plain form; into whatever keeps them."""
