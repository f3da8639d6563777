# A-04. One name in four scopes is four groups. Asked without a scope, a host answers for every scope around it:
# from eu.fr.c1 that is all four, from us only the world's.
# spec: C-006 C-007 C-037
world   tree T-REF
join    g@eu.fr.c1  eu.fr.c1.h1 eu.fr.c1.h2/x
join    g@eu.fr     eu.fr.c1.h1 eu.fr.c2.h1
join    g@eu        eu.fr.c1.h1 eu.de.c1.h1
join    g           eu.fr.c1.h1 us.ny.c1.h1
settle
resolve g@*  eu.fr.c1.h1
resolve g@*  us.ca.c1.h1
settle
resolve g@us eu.fr.c1.h1
settle
----
  0.002  eu.fr.c1.h1   g@eu.fr.c1 is {eu.fr.c1.h1}
  0.002  eu.fr.c1.h1   eu.fr.c1.h2/x joined   g@eu.fr.c1 is {eu.fr.c1.h1 eu.fr.c1.h2/x}
  0.004  eu.fr.c1.h2/x   g@eu.fr.c1 is {eu.fr.c1.h1 eu.fr.c1.h2/x}
  0.084  eu.fr.c1.h1 eu.fr.c2.h1   g@fr is {eu.fr.c1.h1 eu.fr.c2.h1}
  0.244  eu.de.c1.h1 eu.fr.c1.h1   g@eu is {eu.de.c1.h1 eu.fr.c1.h1}
  0.404  eu.fr.c1.h1 us.ny.c1.h1   g is {eu.fr.c1.h1 us.ny.c1.h1}
  8.728  eu.fr.c1.h1   answer: g in   eu.fr.c1.h1 {}   eu.fr.c1 {eu.fr.c1.h1 eu.fr.c1.h2/x}   fr {eu.fr.c1.h1 eu.fr.c2.h1}   eu {eu.de.c1.h1 eu.fr.c1.h1}   world {eu.fr.c1.h1 us.ny.c1.h1}
  8.808  us.ca.c1.h1   answer: g in   us.ca.c1.h1 {}   us.ca.c1 {}   ca {}   us {}   world {eu.fr.c1.h1 us.ny.c1.h1}
 16.808  eu.fr.c1.h1   refused: NOT_IN_SCOPE
