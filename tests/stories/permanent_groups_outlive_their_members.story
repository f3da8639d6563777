# An administrator registers a name at the server of its scope. It is known to every host inside and to no
# other, it may be empty, and it is on disk: restarts do not forget it.
# spec: A-24 C-012 C-013 C-014 C-043
world   eu.paris: a b   us.ny: d
register news@eu
settle
----
nothing

resolve news@eu  a
join    news@eu  a
join    news@eu  b permanent
join    news@us  d permanent
settle
----
  0.000  a         refused: GROUP_IS_PERMANENT
  0.000  d         refused: NO_SUCH_PERMANENT_GROUP
  0.002  a         answer: news@eu is {}
  0.002  b         news@eu is {b}

leave   news@eu  b
restart eu paris
settle
----
nothing

join    news@eu  b permanent
resolve news@eu  a
settle
----
  0.002  b         news@eu is {b}
  0.004  a         answer: news@eu is {b}
