"""The Spark pipeline: what happened, as seen from where, and were the promises kept?

session     where Spark runs, and how it is started without a word
schemas     every table's columns, under a name
questions/  transforms, DataFrame -> DataFrame: one file per question
audits/     the promises, each as a job over any number of events

Only this room knows of Spark, which is an extra: ``pip install 'rostra[spark]'``.
"""
