# A-25. Only the line between two sibling clusters is cut. They do not see each other, though both see everybody
# else: the path between two hosts is one, and nobody relays around it.
# spec: C-072
world   tree T-REF
join    g  eu.fr.c1.h1 eu.fr.c2.h1 us.ca.c2.h2
settle
----
  0.404  eu.fr.c1.h1 eu.fr.c2.h1 us.ca.c2.h2   g is {eu.fr.c1.h1 eu.fr.c2.h1 us.ca.c2.h2}

cut     link eu.fr.c1 | eu.fr.c2
settle
----
  4.097  eu.fr.c1.h1   without eu.fr.c2   g is {eu.fr.c1.h1 us.ca.c2.h2}   because eu.fr.c1 lost eu.fr.c2: silent
  4.097  eu.fr.c2.h1   without eu.fr.c1   g is {eu.fr.c2.h1 us.ca.c2.h2}   because eu.fr.c2 lost eu.fr.c1: silent

heal
settle
----
  3.912  eu.fr.c1.h1   merged: eu.fr.c2.h1 back   g is {eu.fr.c1.h1 eu.fr.c2.h1 us.ca.c2.h2}
  3.912  eu.fr.c2.h1   merged: eu.fr.c1.h1 back   g is {eu.fr.c1.h1 eu.fr.c2.h1 us.ca.c2.h2}
