"""What the Congress paper draws and claims, shown by running it: report/congress.html.

drawings.py       its figures, generated from the code: the hierarchy, the messages, the handlers
counts.py         messages per step on the reference tree, by kind and by level
experiments.py    its claims about cost and recovery, E-1 to E-7
page.py           one self-contained page
"""
