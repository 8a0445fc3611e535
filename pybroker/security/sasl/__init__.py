"""Logins by SASL: mechanisms, and the parts of the server and of the client in their exchanges, as rules on bytes.

login                the login of one connection: what fits when, and what a login ends with
exchange             what the mechanisms have in common, and their errors
plain                PLAIN
scram, scram_credentials       SCRAM-SHA-256 and SCRAM-SHA-512
token_logins         SCRAM with a delegation token
oauthbearer, oauthbearer_settings    OAUTHBEARER, and which tokens a listener accepts
bearer_tokens, key_set         its tokens, and the keys that verify them
offers               what each listener offers, as the configuration has it
client_exchange      the client's part of the mechanisms
client_login         how brokers log in at each other, and our commands at a broker
jaas                 the syntax of Kafka's login modules

Source: org.apache.kafka.common.security; RFC 4422.
"""
