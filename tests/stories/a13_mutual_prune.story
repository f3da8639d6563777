# A-13. Both clusters have told each other that they have nobody. Then each gets an offline member, and a question
# from either side must find both.
# spec: C-097 C-125
world   tree T-REF
join    g@eu.fr  eu.fr.c1.h1 eu.fr.c2.h1
settle
leave   g@eu.fr  eu.fr.c1.h1 eu.fr.c2.h1
resolve g@eu.fr  eu.fr.c1.h1 eu.fr.c2.h1
settle
join    g@eu.fr  eu.fr.c1.h2 eu.fr.c2.h2 offline
settle
resolve g@eu.fr  eu.fr.c1.h1 eu.fr.c2.h1
settle
----
  0.084  eu.fr.c1.h1 eu.fr.c2.h1   g@fr is {eu.fr.c1.h1 eu.fr.c2.h1}
  8.332  eu.fr.c1.h1 eu.fr.c2.h1   answer: g@fr is {}
 24.834  eu.fr.c1.h1 eu.fr.c2.h1   answer: g@fr is {eu.fr.c1.h2 eu.fr.c2.h2}
