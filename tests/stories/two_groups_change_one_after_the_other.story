# Two sites ask for a change at the same moment, each of its own group. One change at a time, over all groups: one of
# the two coordinators yields, and its group waits. With lanes: `two_groups_change_at_once`.
# spec: V-073
world   eu.fr: a   eu.de: b   eu.it: c   lan=1ms wan=100ms
run     8s
join    chess@eu  a  membership=agreed
join    radio@eu  b  membership=agreed
run     4s
----
  9.404  b         b joined   radio@eu is [b]   view 1
  9.704  a         a joined   chess@eu is [a]   view 1

join    chess@eu  c  membership=agreed
join    radio@eu  a  membership=agreed
run     4s
----
  0.504  a         b a joined   radio@eu is [b a]   view 2
  0.604  b         a joined   radio@eu is [b a]   view 2
  0.804  c         a c joined   chess@eu is [a c]   view 2
  0.904  a         c joined   chess@eu is [a c]   view 2
