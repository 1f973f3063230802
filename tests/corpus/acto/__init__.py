"""41 of the 56 bugs that Acto found in eleven operators (SOSP'23), each as an operator beside its repaired twin.

They are those whose input is known from Acto's own tests or from the report; the operators are written anew, as small
models of what goes wrong with that input. Missing are cockroach-operator 919; mongodb-community-operator 1055 and 1074;
percona-xtradb-cluster-operator 1060, 1061 and 1067; rabbitmq-operator 928; spotahome-redis-operator 407;
ot-redis-operator 283, 286, 292 and 297 (its pods fail by a probe, and no container is started here); tidb-operator 4613
and 4945; zookeeper-operator 474.
"""
