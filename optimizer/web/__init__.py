"""`shardwise serve`: the JSON service, and the page on top of it.

    settings.py     how it serves: flags, then SHARDWISE_SERVE_* variables, then defaults
    app.py          create_app: the FastAPI application, with its routes, limits and workers
    guard.py        what every request has to pass: its Host, its origin, its token, its size
    routes.py       a route a kind of question (see optimizer.questions.kinds), and its job
    jobs.py         questions that are answered in the background
    problems.py     errors as RFC 9457 problem details
    missing.py      addresses and methods that are not there
    openapi.py      what /openapi.json says        reference.py    the same as a page that loads nothing
    metrics.py      what Prometheus reads          server.py       the port, and an orderly end
    page/           the page under "/"

The processes that answer are those of optimizer.questions.workers.
"""
