"""The seam to the disk: files, plans that write nothing, crash points, whole outputs."""
