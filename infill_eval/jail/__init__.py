"""The child side of the sandbox: everything here runs in a fresh interpreter that holds no secret of the evaluation.

The process that starts is the **judge**; it isolates itself, forks the **worker** that will run the program under test,
and only then reads the tests. Both use the standard library alone, so that a start costs milliseconds.
"""
