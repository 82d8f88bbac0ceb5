#!/usr/bin/env python3
"""Writes a page of docs/ from each public header, whose comments are the contract.

    tools/api_reference.py             rewrites the pages
    tools/api_reference.py --check     says whether they are up to date, and which names have no comment
"""

import argparse
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Reference:
    """A header and its page."""
    name: str
    title: str
    page: pathlib.Path

    def header(self):
        return (ROOT / "include/anello" / self.name).read_text()


REFERENCES = [Reference("anello.h", "The C API", ROOT / "docs/api.md"),
              Reference("gradient_sync.h", "The gradient synchronizer in C", ROOT / "docs/api-gradient-sync.md"),
              Reference("sampler.h", "Samplers in C", ROOT / "docs/api-sampler.md"),
              Reference("stream.h", "Calls in CUDA streams", ROOT / "docs/api-stream.md")]

SECTION = re.compile(r"/\* -{4} (.*?) -+ \*/")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"\b(anello_\w+)\(")
BANNER_ITEM = re.compile(r"^(\w+) {2,}(.*)")


@dataclasses.dataclass
class Item:
    """A comment and the declarations under it."""
    comment: str
    code: str

    def names(self):
        """The names that it declares, functions and objects first."""
        bare = COMMENT.sub("", self.code)
        functions = [FUNCTION.search(line)[1] for line in re.findall(r"^ANELLO_API\b[^;]*;", bare, re.M)
                     if FUNCTION.search(line)]
        objects = re.findall(r"^ANELLO_API extern [^;]*?(\w+);", bare, re.M)
        types = re.findall(r"^} (\w+);|^typedef struct \w+ \{.*\} (\w+);|^typedef struct \w+ \*(\w+);|\(\*(anello_\w+_t)\)\(",
                           bare, re.M)
        macros = re.findall(r"^#define (ANELLO_\w+)", bare, re.M)
        return functions + objects + [name for match in types for name in match if name] + macros


@dataclasses.dataclass
class Section:
    title: str
    items: list


def text_of(comment):
    """The lines of a comment without its markers; indentation is kept."""
    lines = comment.removeprefix("/*").removesuffix("*/").split("\n")
    return "\n".join(re.sub(r"^ ?\*? ?", "", line).rstrip() if i else line.strip() for i, line in enumerate(lines)).strip("\n")


def parse(header):
    """The banner's text and the sections."""
    banner = text_of(COMMENT.search(header)[0])
    body = header[header.index('extern "C" {'):]
    pieces = SECTION.split(body)
    sections = [Section(title, list(items(code))) for title, code in zip(pieces[1::2], pieces[2::2])]
    return banner, sections


def items(code):
    """Blocks between empty lines. A comment above declarations describes all of them; a separate one describes what
    follows."""
    code = re.split(r"\n#ifdef __cplusplus\n}", code)[0]
    pending = ""
    for block in re.split(r"\n\s*\n", code):
        block = block.strip("\n")
        if not block.strip():
            continue
        comment = COMMENT.match(block)
        rest = block[comment.end():].strip("\n") if comment else block
        said = text_of(comment[0]) if comment else ""
        if not rest:
            yield Item(said, "")
            continue
        # A comment further down begins the next item.
        split = re.search(r"^/\*", rest, re.M)
        while split:
            yield Item(said, rest[:split.start()].strip("\n"))
            comment = COMMENT.match(rest, split.start())
            said, rest = text_of(comment[0]), rest[comment.end():].strip("\n")
            split = re.search(r"^/\*", rest, re.M)
        yield Item(said or pending, rest)


def escaped(text):
    return re.sub(r"([*<>|\[\]])", r"\\\1", text)


def prose(text):
    """Paragraphs for Markdown; indented lines are unchanged."""
    out, fenced = [], False
    for line in text.split("\n"):
        indented = line.startswith("  ")
        if indented != fenced:
            out.append("```" if fenced else "\n```text")
            fenced = indented
        out.append(line if indented else escaped(line))
    return "\n".join(out + (["```"] if fenced else []))


def conventions(banner):
    """The banner: paragraphs, and its items as a list."""
    out, in_item = [], False
    for line in banner.split("\n"):
        item = BANNER_ITEM.match(line)
        in_item = bool(item) or (in_item and line.startswith(" " * 6))
        if item:
            out.append(f"- **{item[1]}.** {escaped(item[2])}")
        elif in_item:
            out.append("  " + escaped(line.strip()))
        elif line.startswith("  "):
            out.append("  " + line)
        else:
            out.append(escaped(line))
    return "\n".join(out)


def fields(code):
    """(name, declaration, comment) of each entry of an enum or struct; a comment follows its entry."""
    comments = COMMENT.findall(code)
    bare = COMMENT.sub("\0", code)
    body = bare[bare.index("{") + 1:bare.rindex("}")]
    rows = []
    for piece in re.split("," if "ANELLO_ENUM" in code else ";", body):
        # The text after the separator, up to the next entry, belongs to the entry before it.
        after, declaration = re.match(r"((?:\s*\0)*)(.*)", piece, re.S).groups()
        if rows:
            rows[-1][2].extend(comments.pop(0) for _ in range(after.count("\0")))
        declaration, own = declaration.replace("\0", " "), declaration.count("\0")
        declaration = " ".join(declaration.split())
        if declaration:
            name = re.search(r"\(\*(\w+)\)|(\w+)(?:\[\w+\])?(?: = -?\w+)?$", declaration)
            rows.append((name[1] or name[2], declaration, [comments.pop(0) for _ in range(own)]))
    return [(name, declaration, " ".join(" ".join(text_of(each).split()) for each in said)) for name, declaration, said in rows]


def is_table(code):
    return re.match(r"typedef (?:ANELLO_ENUM\(\w+\)|struct \w+) \{\n", code) is not None


def shown(item):
    parts = []
    code = item.code.replace("ANELLO_API ", "")
    if code and is_table(item.code):
        typedef, _, after = code.partition("\n} ")
        name = after.split(";")[0]
        enum = "ANELLO_ENUM" in typedef
        rest = after.partition(";")[2].strip()
        parts.append(f"```c\ntypedef {'enum' if enum else 'struct'} {{ .. }} {name};\n{rest}".rstrip() + "\n```")
        entries = fields(item.code.partition("\n} ")[0] + "\n}")
        rows = [f"| `{declaration}` | {escaped(said)} |" for _, declaration, said in entries]
        table = [f"| {'enumerator' if enum else 'field'} | |", "| --- | --- |", *rows]
        return parts + ([prose(item.comment)] if item.comment else []) + ["\n".join(table)]
    if code:
        parts.append(f"```c\n{code}\n```")
    return parts + ([prose(item.comment)] if item.comment else [])


def page(reference):
    banner, sections = parse(reference.header())
    path = f"include/anello/{reference.name}"
    out = [f"# {reference.title}", f"Written by `tools/api_reference.py` from [`{path}`](../{path}), "
           "whose comments are\nthe contract; a test compares the two. Change the header, then run the script.",
           conventions(banner)]
    index = []
    for section in sections:
        names = [name for item in section.items for name in item.names()]
        anchor = re.sub(r"[^\w -]", "", section.title.lower()).replace(" ", "-")
        index.append(f"| [{section.title}](#{anchor}) | {', '.join(f'`{name}`' for name in names)} |")
    out.append("\n".join(["| section | names |", "| --- | --- |", *index]))
    for section in sections:
        out.append(f"## {section.title}")
        for item in section.items:
            bare = COMMENT.sub("", item.code)
            functions = [name for name in item.names() if f"{name}(" in bare and name.startswith("anello_")]
            if functions and not is_table(item.code):
                few = functions if len(functions) <= 4 else [functions[0], "..", functions[-1]]
                out.append("### " + ", ".join(few))
            elif item.names():
                out.append("### " + item.names()[0])
            out += shown(item)
    return "\n\n".join(out) + "\n"


def undescribed(header):
    """Names that no comment describes."""
    missing = []
    for section in parse(header)[1]:
        for item in section.items:
            if not item.code:
                continue
            if is_table(item.code):
                continue  # a field with a clear name and type needs no comment
            if not item.comment and not COMMENT.search(item.code):
                missing += [name for name in item.names() if name.startswith("anello_") and not name.endswith("_t")]
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 where the page is not right")
    options = parser.parse_args()
    right = True
    for reference in REFERENCES:
        missing = undescribed(reference.header())
        if missing:
            print(f"without a comment in {reference.name}: " + ", ".join(missing))
        text = page(reference)
        if not options.check:
            reference.page.write_text(text)
            continue
        current = reference.page.exists() and reference.page.read_text() == text
        if not current:
            print(f"{reference.page} is not what {reference.name} says: run tools/api_reference.py")
        right = right and current and not missing
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
