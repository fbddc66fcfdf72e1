"""One node that writes the directories we study."""
