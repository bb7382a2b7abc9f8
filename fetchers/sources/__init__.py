"""One file a source: `fetchers.source.sources()` finds them."""
