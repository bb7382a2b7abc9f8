"""`shardwise mcp`: the questions of the project as tools for agents (Model Context Protocol, over standard streams).

tools.py    each kind of question as a tool: name, description, schemas
said.py     an answer in a few lines of text, beside the structured one
server.py   the server: lists tools, answers calls, with the workers of optimizer.questions.workers
"""
