"""What a node saw and decided, written down so that it can be asked about afterwards.

schema      the columns and the kinds of rows: the contract between whoever writes and whoever asks
fold        what one host sees of each group, so that every notice becomes lines about members
rows        from what a node is shown and orders to entries
segments    entries as Parquet files that appear whole
writer      entries on their way to the disk, without anybody waiting for it
inputs      everything that a node is given, so that it can be given again
bounds      when a segment is finished, and how much may wait
"""
