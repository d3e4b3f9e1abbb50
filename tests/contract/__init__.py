"""Today's behaviour as other programs and people meet it; no test here knows a module behind the command line.

What commands print and the server answers is cut in two: values (keys, figures, citations, commands, exit codes) and
words (sentences). Both are recorded in `recorded/`, and a test fails with the places at which they differ.

    pytest tests/contract -n 2                       about two minutes
    BLESS=words pytest tests/contract -n 2           after a change of wording: records the words anew
    BLESS=1 pytest tests/contract -n 2 -k compare    after a change of behaviour that is wanted: values too
"""
