from tests.pipelines.tables_page import PAGE, page


def test_the_page_of_the_tables_is_what_the_schemas_say():
    again = "python -m tests.pipelines.tables_page writes it anew"
    assert PAGE.read_text(encoding="utf-8") == page(), again
