"""How `tools/book` makes a book of all that is written in this repository: Sphinx, MyST for Markdown, Furo for its looks."""

project = "Qanat"
html_title = "Qanat"
language = "en"
extensions = ["myst_parser"]
# A heading's name in an address is what it is where the repository is looked at: `page.md#the-two-paths`.
myst_heading_anchors = 6
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_static_path = ["qanat.css"]
html_css_files = ["qanat.css"]
# Readers have the repository; its texts once more would be half of the book.
html_copy_source = False
html_show_copyright = False
# The pages' headings are those of where they come from, and what no lexer knows is shown as it is.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
