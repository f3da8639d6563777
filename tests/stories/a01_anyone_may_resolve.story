# A-01. Somebody who is in no group asks who is in one, and is told everybody, wherever they are.
# spec: C-036 C-038 C-057
world   tree T-REF
join    g  eu.fr.c1.h1 eu.de.c2.h1 us.ca.c2.h2
settle
resolve g  us.ny.c1.h1
settle
----
  0.324  us.ca.c2.h2   g is {eu.de.c2.h1 eu.fr.c1.h1 us.ca.c2.h2}
  0.404  eu.de.c2.h1 eu.fr.c1.h1   g is {eu.de.c2.h1 eu.fr.c1.h1 us.ca.c2.h2}
  8.808  us.ny.c1.h1   answer: g is {eu.de.c2.h1 eu.fr.c1.h1 us.ca.c2.h2}
