"""Scripts that fit the data files of this package from measured runs; nothing here runs when shardwise solves."""
