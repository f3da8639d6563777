# A-24. An administrator registers news for eu. It must be joined as what it is, exists only there, and is found
# even when nobody is in it.
# spec: C-012 C-013 C-014 C-043
world   tree T-REF
register news@eu
settle
join    news@eu  eu.fr.c1.h1 permanent
join    news@eu  eu.de.c1.h1
join    news@us  us.ny.c1.h1 permanent
join    news@us  us.ny.c1.h1/other
settle
leave   news@eu  eu.fr.c1.h1
settle
resolve news@eu  eu.de.c2.h2
settle
----
  8.250  eu.de.c1.h1   refused: GROUP_IS_PERMANENT
  8.250  us.ny.c1.h1   refused: NO_SUCH_PERMANENT_GROUP
  8.412  eu.fr.c1.h1   news@eu is {eu.fr.c1.h1}
  8.412  us.ny.c1.h1/other   news@us is {us.ny.c1.h1/other}
 24.912  eu.de.c2.h2   answer: news@eu is {}

crash   eu.fr.c1.h1
settle
restart eu.fr.c1.h1
settle
join    news@eu  eu.fr.c1.h1/again
settle
----
 20.000  eu.fr.c1.h1/again   refused: GROUP_IS_PERMANENT
