"""Attacks of one client on another and on the daemon: each done thrice.

    control   the same act where it is allowed: must happen
    attack    as an ordinary user who has nothing but what the daemon gave him: must not happen
    off       with the protection out of the way (with the victim's own descriptor, as root, …): must happen,
              or the attack could never be seen to succeed

One line of JSON for each on standard output. Run by attacks.rs as root: attacks.py SOCKET [NAME …]
"""

import json
import sys
import time

import handles
import memory
import messages
from arena import ATTACKER, ROWS, Arena

# In this order.
_ = memory, handles, messages


def main():
    wanted = sys.argv[2:]
    # Victim and third are the same throughout: whatever is tried on them, they go on.
    arena = Arena()
    for kind, name, function, damages in ROWS:
        if wanted and not any(word in f"{kind}: {name}" for word in wanted):
            continue
        outcome, start = {"class": kind, "name": name}, time.monotonic()
        for way in ("control", "attack", "off"):
            try:
                outcome[way] = bool(function(arena, way))
            except Exception as error:  # a row that can't be run is a row that fails
                outcome[way] = f"{type(error).__name__}: {error}"
            broken = not isinstance(outcome[way], bool)
            if broken or damages and way == "off":
                arena.close()
                arena = Arena()
            elif damages and way == "attack":
                arena.drop(ATTACKER)
        outcome["seconds"] = round(time.monotonic() - start, 2)
        print(json.dumps(outcome), flush=True)
    arena.close()


main()
