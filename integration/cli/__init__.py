"""Our commands as processes: start and stop, the administrator's tools, dumps of logs, the doctor and the mirror."""
