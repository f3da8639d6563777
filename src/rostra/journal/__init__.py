"""What a node saw and decided, written down so that it can be asked about afterwards.

schema      the columns and the kinds of rows: the contract between writers and readers
entries     one row, before it has a time and a place
fold        what one host sees of each group, so that every notice becomes lines about members
truth       what only the simulator and labs know: which server crashed, which link was cut
segments    entries as Parquet files that appear whole
writer      entries on their way to the disk; no node waits for it
bounds      when a segment is finished, and how much may wait

Which rows a node's steps become is decided in `observe/` (`Scribe`), recordings are made there as well.
"""
