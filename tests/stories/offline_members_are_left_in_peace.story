# An offline member is in every list and is told of nothing. Going online brings a snapshot; from then on it
# hears of changes. A watcher hears of changes and is in no list.
# spec: A-02 C-045 C-046 C-049 C-050
world   haifa: a b   paris: c d
join    chess  a
join    chess  b offline
settle
----
  0.082  a         chess is {a b}

watch   chess  d
settle
----
  0.084  d         chess is {a b}

join    chess  c
settle
----
  0.002  d         c joined   chess is {a b c}
  0.042  a         c joined   chess is {a b c}
  0.084  c         chess is {a b c}

online  chess  b
settle
----
  0.084  b         chess is {a b c}

offline chess  a
leave   chess  c
unwatch chess  d
settle
----
  0.042  b         c left   chess is {a b}
