"""Coverage-guided fuzzing of the decoders, by atheris: `make fuzz`, or

    python -m tests.fuzz                          every target in turn, FUZZ_SECONDS (60) in all
    python -m tests.fuzz --target segment --seconds 600
    python -m tests.fuzz --target segment FILE    one input again, without atheris

targets.py    what is done with an input, and what must hold
corpus/       inputs worth keeping, a file of hexadecimal lines a target; tests replay them
findings/     what a run found: inputs of new coverage, and `crash-…`; not in git
seeds.py      where the first inputs came from: `python -m tests.fuzz.seeds` writes them anew
"""
