"""Questions as programs ask them: typed requests, and one way to answer each, for the JSON service and for agents.

    asked.py        scenarios and models as a request may give them: nothing in a request is ever a path
    requests.py     one model a kind of question; list_requests.py has those that list rows
    listed.py       rows of a catalog or of prices, a part of them at a time
    answers.py      from each question to the same result that the command line prints with --json; list_answers.py too
    kinds.py        the table of all kinds: name, request, results; `answer` answers any of them in this process
    facts.py        offers and models that questions are answered from, kept as long as they are good
    refusal.py      what is wrong with a question, field by field, in a form that crosses processes
    in_worker.py    what runs inside a worker process
    processes.py    the processes that answer
    workers.py      questions that wait for them: limited in time, shared, kept, cancelled by ending a process
    no_answer.py    why there may be no answer: too many wait, it took too long, and so on

To add a kind of question: a model in requests.py, a function in answers.py, a line in kinds.py. The service has its
route, its job and its description then, and agents their tool.
"""
