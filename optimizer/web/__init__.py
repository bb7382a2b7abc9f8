"""`shardwise serve`: the JSON service, and the page on top of it.

settings.py   how it serves: flags, then SHARDWISE_SERVE_* variables, then defaults
app.py        create_app: the FastAPI application, with its routes, limits and workers
"""
