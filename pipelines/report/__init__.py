"""What is found, in forms for people and programs."""
