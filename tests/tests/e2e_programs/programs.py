"""Programs as they are under `qanat run`: one row each, of what it is and what is done to it.

    programs.py                 lists the rows: file, name
    programs.py --table         the rows as docs/posix.md has them
    programs.py QANAT NAME      tries one, in this network namespace; exit code 1 and the reason if it fails
    programs.py bare NAME       the same without the library: does the row itself hold?
"""

import sys

import clients
import datagrams
import files_and_mail
import frameworks
import languages
import middle
import services
import web_servers
from stage import ROWS, try_one

_ = web_servers, frameworks, languages, middle, services, files_and_mail, datagrams, clients


def table():
    yield "| program | language | input and output by | tried |"
    yield "|---|---|---|---|"
    for program, language, style, tried, _ in ROWS:
        yield f"| {program} | {language} | {style} | {tried} |"


def main(words):
    if not words:
        for program, _, _, _, function in ROWS:
            if function:
                print(f"{function.__module__}\t{program}")
    elif words == ["--table"]:
        print("\n".join(table()))
    else:
        command, name = words
        wrong = try_one(command, name)
        if wrong:
            print(f"{name}: {wrong}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
