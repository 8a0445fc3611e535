"""Stock clients behind one interface, and programs that run them in processes, namespaces and containers of their own.

stock                     the stock Python clients behind one pair of verbs
old_client                a program for an environment with an old release of kafka-python
groups, group_member      members of a group as processes, and the check of what they did
paced_consumer            a consumer that reads as far as it is asked to
epoch_watchers            consumers that report whether they noticed lost records
java_clients              Java's clients in one JVM that takes commands
isolation                 what a reader with an isolation level gets
transaction_loop          a loop of transactions, one for each instruction
access, secured           how clients get in at listeners with TLS and logins, and a program that writes and reads there
certificates              keys and certificates in files, for brokers and clients with TLS
tokens                    an issuer of JSON Web Tokens, for OAUTHBEARER
sequences                 a client at work while brokers fail: numbers, transactions, a group
advertised                a client in a network namespace
container_client          a client in a toy container
testcontainers_python, testcontainers_runs    what the Testcontainers libraries do, without an engine
"""
