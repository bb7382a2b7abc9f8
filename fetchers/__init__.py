"""Where offers come from: each source's rows are placed in the catalog's schema or set aside with a reason."""
