"""Questions as programs ask them: typed requests, and one way to answer each, for the JSON service and for agents.

asked.py        scenarios and models as a request may give them: nothing in a request is ever a path
requests.py     one model a kind of question
answers.py      from each to the same result that the command line prints with --json
kinds.py        the table of all kinds: name, request, result
facts.py        offers and models that questions are answered from, kept as long as they are good
refusal.py      what is wrong with a question, field by field, in a form that crosses processes
workers.py      processes that answer: limited in time, cancelled by ending them
"""
