"""Every message of the package is on the page, with a cure."""
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAKE = runpy.run_path(str(ROOT / 'docs/make_troubleshooting.py'))


def test_every_message_has_a_cure():
    found = MAKE['messages']()
    assert sum(map(len, found.values())) > 150
    missing = [(module, text) for module, entries in found.items()
               for text, cure in entries if len(cure) < 8]
    assert not missing, (
        f'{missing}: end the message with what to do, or add it to CURES of '
        'docs/make_troubleshooting.py')


def test_the_page_is_complete():
    page = (ROOT / 'docs/troubleshooting.md').read_text(encoding='utf-8')
    assert page == MAKE['page'](), 'run python docs/make_troubleshooting.py'
