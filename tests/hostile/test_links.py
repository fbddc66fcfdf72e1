"""Links in the evidence: shown, and followed only as far as they were allowed to."""

import json
import shutil

import pytest

from jobs import list as list_verb
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS
from tests import golden
from tests.jobs.verbs import VERBS, run_verb

SETTINGS = {
    "compact": ["--set=cleanup.policy=compact"],
    "recover": ["--files", "--clean-shutdown=no"],  # else only what is lost has a row
}


@pytest.fixture
def evidence(tmp_path):
    """A log dir with one healthy partition, and another partition elsewhere."""
    (source,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    shutil.copytree(source / "transactions-0", tmp_path / "data" / "ok-0")
    shutil.copytree(source / "transactions-0", tmp_path / "elsewhere" / "secret-0")
    return tmp_path / "data"


@pytest.mark.parametrize("verb", VERBS)
def test_a_link_out_of_the_evidence_is_shown_and_not_followed(capsys, evidence, verb):
    (evidence / "up-0").symlink_to("../elsewhere/secret-0")
    code, out, err = run_verb(VERBS[verb], capsys, evidence, *SETTINGS.get(verb, []))
    assert code == COULD_NOT_RUN
    assert "up-0 -> ../elsewhere/secret-0: a link out of the given paths, not followed" in err
    assert "ok" in out
    assert "up-0/" not in out


@pytest.mark.parametrize("verb", VERBS)
def test_follow_links_goes_there_and_says_so(capsys, evidence, verb):
    (evidence / "up-0").symlink_to("../elsewhere/secret-0")
    arguments = [evidence, "--follow-links", *SETTINGS.get(verb, [])]
    code, out, err = run_verb(VERBS[verb], capsys, *arguments)
    assert code == (FINDINGS if verb == "audit" else CLEAN), err  # a topic id that another has
    assert "up-0 -> ../elsewhere/secret-0" in err
    assert "up" in out


@pytest.mark.parametrize("verb", VERBS)
def test_a_path_that_is_a_link_itself_is_followed(capsys, evidence, verb):
    link = evidence.parent / "link"
    link.symlink_to(evidence)
    code, out, err = run_verb(VERBS[verb], capsys, link, *SETTINGS.get(verb, []))
    assert (code, "ok" in out) == (CLEAN, True), err


@pytest.mark.parametrize("verb", VERBS)
def test_a_link_that_stays_inside_is_followed(capsys, evidence, verb):
    (evidence / "again-0").symlink_to("ok-0")
    code, out, err = run_verb(VERBS[verb], capsys, evidence, *SETTINGS.get(verb, []))
    expected = FINDINGS if verb == "audit" else CLEAN  # a topic id that another has
    assert (code, "again" in out or verb == "dump") == (expected, True), err


@pytest.mark.parametrize("verb", VERBS)
def test_a_link_that_stays_inside_is_shown_as_a_link(capsys, evidence, verb):
    (evidence / "again-0").symlink_to("ok-0")
    _, out, err = run_verb(VERBS[verb], capsys, evidence, *SETTINGS.get(verb, []))
    assert f"{evidence / 'again-0'} -> ok-0: link followed\n" in err
    assert "again-0 -> ok-0" in out or verb in ("dump", "audit")


@pytest.mark.parametrize("verb", VERBS)
def test_a_link_in_a_circle_is_shown_with_its_target(capsys, evidence, verb):
    (evidence / "loop-0").symlink_to("loop-0")
    code, _, err = run_verb(VERBS[verb], capsys, evidence, *SETTINGS.get(verb, []))
    assert code == COULD_NOT_RUN
    assert "loop-0 -> loop-0: a link in a circle\n" in err


def test_a_linked_checkpoint_is_not_called_missing(capsys, evidence):
    (evidence / "recovery-point-offset-checkpoint").symlink_to("/etc/passwd")
    _, out, _ = run_verb(list_verb.main, capsys, evidence)
    assert "recovery-point-offset-checkpoint is a link that was not followed;" in out


def test_the_text_behind_a_linked_checkpoint_is_not_shown(capsys, evidence, tmp_path):
    (tmp_path / "shadow").write_text("root:secret")
    (evidence / "recovery-point-offset-checkpoint").symlink_to(tmp_path / "shadow")
    for main in VERBS.values():
        code, out, err = run_verb(main, capsys, evidence)
        assert (code, "secret" in out + err) == (COULD_NOT_RUN, False)


def test_json_shows_the_link_too(capsys, evidence):
    (evidence / "up-0").symlink_to("/etc")
    _, out, _ = run_verb(list_verb.main, capsys, evidence, "--format", "json")
    problems = [row for row in map(json.loads, out.splitlines()) if row["kind"] == "problem"]
    (problem,) = problems
    assert problem["path"] == str(evidence / "up-0")
    assert problem["message"].startswith("up-0 -> /etc: a link out of the given paths")
