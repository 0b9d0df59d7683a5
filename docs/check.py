"""Check the built site: links and anchors within it, alt texts, headings, and what the search finds.

python docs/check.py docs/_build/html
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FINDS = ("dormant", "checkpoint", "Slurm", "shrink")
MADE_BY_SPHINX = {"genindex.html", "py-modindex.html", "search.html"}  # their headings are the theme's


class Page(HTMLParser):
    """What the check needs of a page: anchors, links, images without alt text, and the levels of its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.silent: list[str] = []
        self.levels: list[int] = []
        self._article = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[name] or "" for name in ("id", "name") if name in found}
        self._article += tag == "article"
        if tag == "a" and found.get("href"):
            self.links.append(found["href"] or "")
        if tag == "img":
            self.links.append(found.get("src") or "")
            if not found.get("alt") or found["alt"] == found.get("src"):
                self.silent.append(found.get("src") or "")
        if self._article and re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        self._article -= tag == "article"


def problems(site: Path) -> Iterator[str]:
    """Yield a line for each problem of a built site."""
    pages = {file.resolve(): Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        name = file.relative_to(site.resolve()).as_posix()
        for link in page.links:
            if problem := _broken(file, link, pages):
                yield f"{name}: {problem}: {link}"
        yield from (f"{name}: no alt text: {image}" for image in page.silent)
        if name not in MADE_BY_SPHINX:
            yield from (f"{name}: {problem}" for problem in _headings(page.levels))
    index = (site / "searchindex.js").read_text(encoding="utf-8").lower()
    yield from (f"the search does not find {word!r}" for word in FINDS if not _finds(index, word))


def _broken(file: Path, link: str, pages: dict[Path, Page]) -> str:
    """Return what is wrong with a link within the site, or an empty text."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.exists():
        return "no such file"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "no such anchor"
    return ""


def _headings(levels: list[int]) -> Iterator[str]:
    if levels.count(1) != 1:
        yield f"{levels.count(1)} headings of level 1"
    for before, level in zip([0, *levels], levels, strict=False):
        if level > before + 1:
            yield f"a heading of level {level} follows one of level {before}"


def _finds(index: str, word: str) -> bool:
    """Return whether the index has a term that begins as the word's stem does."""
    return re.search(rf'[{{,]"?{re.escape(word.lower())[:6]}\w*"?:', index) is not None


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(f"{len(found)} problems" if found else 0)
