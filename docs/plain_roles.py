"""A hook of mkdocs: reStructuredText in docstrings becomes plain text.

Roles such as ``:class:`` are removed, and ``::`` ends a paragraph as ``:``.
"""
import re

ROLE = re.compile(r':(?:class|meth|mod|func|attr|data):(?=<code>)')


def on_page_content(html: str, **kwargs) -> str:
    """Mend the HTML of a page."""
    return ROLE.sub('', html).replace('::</p>', ':</p>')
