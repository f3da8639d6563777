# A-02. An online member is told of a newcomer, an offline one is not; the newcomer gets the whole list once, and
# nothing about itself.
# spec: C-045 C-046 C-047 C-058
world   tree T-REF
join    g  eu.fr.c1.h1
join    g  eu.de.c1.h1 offline
settle
join    g  us.ca.c2.h2
settle
----
  0.244  eu.fr.c1.h1   g is {eu.de.c1.h1 eu.fr.c1.h1}
  8.452  eu.fr.c1.h1   us.ca.c2.h2 joined   g is {eu.de.c1.h1 eu.fr.c1.h1 us.ca.c2.h2}
  8.654  us.ca.c2.h2   g is {eu.de.c1.h1 eu.fr.c1.h1 us.ca.c2.h2}
