"""Commands of the command line, a file each; `optimizer.cli` puts them together."""
