"""Results in forms for people and programs.

summary    what is in some log directories, as text and HTML
text       numbers, sizes and ages as people write them
"""
