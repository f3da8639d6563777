"""What a node saw and decided, written down so that it can be asked about afterwards.

schema      the columns and the kinds of rows: the contract between whoever writes and whoever asks
"""
