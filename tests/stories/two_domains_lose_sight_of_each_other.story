# Two domains lose sight of each other. Each side is told once, by domain and not member by
# member: those inside keep only it, those outside go on without it.
# spec: C-063 C-064
world   haifa: a b   paris: c d   wan=80ms
join    chess  a b c d
settle
----
  0.164  a b c d   chess is {a b c d}

cut     haifa | paris
settle
----
  4.251  a b       without paris   chess is {a b}   because haifa lost paris: silent
  4.251  c d       without haifa   chess is {c d}   because paris lost haifa: silent

heal
settle
----
  4.072  a b       merged: c d back   chess is {a b c d}
  4.072  c d       merged: a b back   chess is {a b c d}
