"""The broker as the entry point of a container image: what it reads, what it refuses, and how it announces that it is ready.

variables        environment to properties and remarks: apache/kafka's, confluentinc's, Bitnami's and wurstmeister's names
refusals         listeners without the protection that they ask for
several_brokers  signs that there are to be other brokers
own_hosts        whether a host's name means this container
secret_files     stores and passwords that variables name by their files
jaas_file        the login modules of a file that KAFKA_OPTS names
access_control   an authorizer and users that are asked for
topics           the topics that a variable asks for
files            the properties file that is mounted, or that the command names
directories      where the data lie, and why they cannot
entry            all of it together, up to the configuration
lifecycle        topics before clients, the ready file, the lines that test libraries wait for
"""
