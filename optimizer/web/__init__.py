"""`shardwise serve`: the service and its page."""
