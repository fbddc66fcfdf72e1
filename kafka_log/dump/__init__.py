"""kafka-dump-log in our hands: what it prints for every kind of file."""
