# A-07, A-09, A-10. Two continents lose each other. Each goes on alone: x leaves and y joins in us, z leaves in eu.
# When the line is back, each side is told who is on the other, whole, and nobody sees x or z again.
# spec: C-059 C-060 C-062 C-063 C-068
world   tree T-REF
join    g  eu.fr.c1.h1 eu.de.c2.h1/z us.ny.c1.h1 us.ca.c2.h2/x
settle
----
  0.324  eu.de.c2.h1/z eu.fr.c1.h1 us.ca.c2.h2/x us.ny.c1.h1   g is {eu.de.c2.h1/z eu.fr.c1.h1 us.ca.c2.h2/x us.ny.c1.h1}

cut     eu | us
settle
----
  4.257  eu.de.c2.h1/z eu.fr.c1.h1   without us   g is {eu.de.c2.h1/z eu.fr.c1.h1}   because eu lost us: silent
  4.257  us.ca.c2.h2/x us.ny.c1.h1   without eu   g is {us.ca.c2.h2/x us.ny.c1.h1}   because us lost eu: silent

leave   g  us.ca.c2.h2/x eu.de.c2.h1/z
join    g  us.ca.c1.h1/y
settle
----
  0.122  us.ny.c1.h1   us.ca.c2.h2/x left   g is {us.ny.c1.h1}
  0.122  us.ny.c1.h1   us.ca.c1.h1/y joined   g is {us.ca.c1.h1/y us.ny.c1.h1}
  0.122  eu.fr.c1.h1   eu.de.c2.h1/z left   g is {eu.fr.c1.h1}
  0.244  us.ca.c1.h1/y   g is {us.ca.c1.h1/y us.ny.c1.h1}

heal
settle
resolve g  eu.de.c1.h1 us.ny.c2.h2
settle
----
  0.822  eu.fr.c1.h1   merged: us.ca.c1.h1/y us.ny.c1.h1 back   g is {eu.fr.c1.h1 us.ca.c1.h1/y us.ny.c1.h1}
  0.822  us.ca.c1.h1/y us.ny.c1.h1   merged: eu.fr.c1.h1 back   g is {eu.fr.c1.h1 us.ca.c1.h1/y us.ny.c1.h1}
  9.146  us.ny.c2.h2   answer: g is {eu.fr.c1.h1 us.ca.c1.h1/y us.ny.c1.h1}
  9.226  eu.de.c1.h1   answer: g is {eu.fr.c1.h1 us.ca.c1.h1/y us.ny.c1.h1}
