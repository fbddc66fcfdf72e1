"""One VotersRecord, as Kafka's JSON converters take it."""

VOTERS = {
    "version": 0,
    "voters": [
        {
            "voterId": 3000,
            "voterDirectoryId": "AAECAwQFBgcICQoLDA0ODw",
            "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
    ],
}
