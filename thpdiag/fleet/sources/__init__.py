"""The list of bundles of a triage run, one `BundleItem` each: names and sizes only, no content is parsed here."""
