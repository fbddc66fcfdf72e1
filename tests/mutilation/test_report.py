"""docs/formats/unnoticed.md tells what is measured here and now."""

from tests.mutilation import report


def test_the_page_of_unnoticed_damage_is_up_to_date() -> None:
    found = report.page()
    message = "`python -m tests.mutilation.report` writes docs/formats/unnoticed.md anew"
    assert found == report.PAGE.read_text("utf-8"), message


def test_every_reason_on_the_page_is_about_something_on_it() -> None:
    page = report.PAGE.read_text("utf-8")
    assert [
        why for why in {*report.WHY.values(), *report.WHY_CUT.values()} if why not in page
    ] == []
