# As in `two_groups_change_one_after_the_other`, with lanes: each of the two changes takes as long as it would alone, and
# no coordinator yields.
# spec: V-073
world   eu.fr: a   eu.de: b   eu.it: c   lan=1ms wan=100ms lanes=6
run     8s
join    chess@eu  a  membership=agreed
join    radio@eu  b  membership=agreed
run     4s
----
  9.404  b         b joined   radio@eu is [b]   view 1
  9.404  a         a joined   chess@eu is [a]   view 1

join    chess@eu  c  membership=agreed
join    radio@eu  a  membership=agreed
run     4s
----
  0.404  c         a c joined   chess@eu is [a c]   view 2
  0.404  a         b a joined   radio@eu is [b a]   view 2
  0.504  b         a joined   radio@eu is [b a]   view 2
  0.504  a         c joined   chess@eu is [a c]   view 2
