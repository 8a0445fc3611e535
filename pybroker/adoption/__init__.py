"""Commands on the data of a broker that does not run: directories become its own, or Apache Kafka's again.

known_directories    list and forget data directories
lost_metadata        take over data directories whose metadata was lost
from_kafka           plan the adoption of a data directory of Apache Kafka, and carry it out
kafka_lockout        keep an Apache Kafka from starting with directories that were adopted
leaving              give data directories back to an Apache Kafka
topic_configs_file   read settings of topics from a file of an administrator
"""
