# A-06. A host falls silent: everybody outside is told once, by the host's name and never by a list of endpoints.
# spec: C-022 C-063 C-064
world   tree T-REF
join    g  eu.fr.c1.h1 eu.fr.c1.h2 eu.fr.c1.h2/second eu.fr.c1.h2/third us.ca.c2.h2
settle
crash   eu.fr.c1.h2
settle
----
  0.404  eu.fr.c1.h1 eu.fr.c1.h2 eu.fr.c1.h2/second eu.fr.c1.h2/third us.ca.c2.h2   g is {eu.fr.c1.h1 eu.fr.c1.h2 eu.fr.c1.h2/second eu.fr.c1.h2/third us.ca.c2.h2}
 11.751  eu.fr.c1.h1   without eu.fr.c1.h2   g is {eu.fr.c1.h1 us.ca.c2.h2}   because eu.fr.c1 lost eu.fr.c1.h2: silent
 11.951  us.ca.c2.h2   without eu.fr.c1.h2   g is {eu.fr.c1.h1 us.ca.c2.h2}   because eu.fr.c1 lost eu.fr.c1.h2: silent
