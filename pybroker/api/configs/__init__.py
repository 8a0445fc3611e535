"""Code that the handlers of configurations share.

config_resources      changes of a topic's, a broker's or a group's settings
described_settings    each setting with its value, source and synonyms, as DescribeConfigs shows it
broker_loggers        the levels of the broker's loggers
"""
