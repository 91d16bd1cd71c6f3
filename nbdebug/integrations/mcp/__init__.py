"""`python -m nbdebug mcp`: the checks as tools of the Model Context Protocol, for assistants that cannot see a widget.

The server speaks over standard input and output, opens no port and runs none of the user's code itself: each call gets
a child process (`child`), in which `worker` loads the setup and answers.
"""
