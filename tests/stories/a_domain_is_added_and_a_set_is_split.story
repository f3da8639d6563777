# An administrator changes a world that runs: a cluster comes, the set of eu is split in two and
# merged again, and the cluster goes. Members notice what concerns them, and no more.
# spec: C-181 V-008
world   eu.de: a   eu.fr: b   wan=20ms  lan
join    chess@eu  a b  membership=agreed
settle
----
  0.244  a         a joined   chess@eu is [a]   view 1
  0.304  b         a b joined   chess@eu is [a b]   view 2
  0.324  a         b joined   chess@eu is [a b]   view 2

add     eu.it.c
settle
join    chess@eu  c  membership=agreed
settle
----
 12.204  c         a b c joined   chess@eu is [a b c]   view 3
 12.224  a b       c joined   chess@eu is [a b c]   view 3

administer  eu.de split eu  eu eu.de  north,south
settle
----
  0.041  a         b c failed   chess@eu is [a]   view 4
  0.061  b c       a failed   chess@eu is [b c]   view 4

administer  eu.fr merge eu
settle
----
  0.161  a         merged   b c joined   chess@eu is [a b c]   view 5
  0.161  b c       merged   a joined   chess@eu is [a b c]   view 5

remove  eu.it
settle
----
  2.637  a b       c failed   chess@eu is [a b]   view 6
