"""The command line: argv to options to work to output; one module a verb."""
