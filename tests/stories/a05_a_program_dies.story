# A-05. A program in three groups is killed while two of its questions are open: one crash is told for each group,
# and no answer goes astray.
# spec: C-034 C-114 C-155
world   tree T-REF wan=200ms
join    a  eu.fr.c1.h1/victim us.ca.c1.h1
join    b  eu.fr.c1.h1/victim us.ca.c1.h1
join    c  eu.fr.c1.h1/victim eu.fr.c1.h2
settle
resolve a  eu.fr.c1.h1/victim
resolve b  eu.fr.c1.h1/victim
run     10ms
kill    eu.fr.c1.h1/victim
settle
----
  1.202  eu.fr.c1.h1/victim eu.fr.c1.h2   c is {eu.fr.c1.h1/victim eu.fr.c1.h2}
  2.004  eu.fr.c1.h1/victim us.ca.c1.h1   a is {eu.fr.c1.h1/victim us.ca.c1.h1}
  2.004  eu.fr.c1.h1/victim us.ca.c1.h1   b is {eu.fr.c1.h1/victim us.ca.c1.h1}
 10.016  eu.fr.c1.h2   eu.fr.c1.h1/victim crashed   c is {eu.fr.c1.h2}
 11.016  us.ca.c1.h1   eu.fr.c1.h1/victim crashed   a is {us.ca.c1.h1}
 11.016  us.ca.c1.h1   eu.fr.c1.h1/victim crashed   b is {us.ca.c1.h1}
