"""Attacks of one client on another and on the daemon: each done thrice.

    control   the same act where it is allowed: must happen
    attack    as an ordinary user who has nothing but what the daemon gave him: must not happen
    off       with the protection out of the way (with the victim's own descriptor, as root, …): must happen,
              or the attack could never be seen to succeed

Another user's service goes on meanwhile, and is watched (witness.py). An attack that it notices is one that happened.

One line of JSON for each on standard output. Run by attacks.rs as root: attacks.py SOCKET QANAT [NAME …]
Without arguments it lists the rows.
"""

import json
import sys
import time

import administration
import closing
import descriptors
import fields
import handles
import identity
import memory
import messages
import privilege
import quotes
import side_channels
import taps
import time_and_cost
import upkeep
from arena import ATTACKER, ROWS, Arena, Witness, complaint

# In this order.
_ = memory, handles, messages, closing, time_and_cost, descriptors, fields, identity, quotes, administration
_ = privilege, side_channels, upkeep, taps


def one(arena, witness, row):
    """The row's outcome, and the arena for the next."""
    kind, name, function, damages = row
    outcome, start = {"class": kind, "name": name}, time.monotonic()
    for way in ("control", "attack", "off"):
        try:
            outcome[way], heard = witness.watch(lambda: bool(function(arena, way)))
            if way == "attack":
                outcome["witness"] = heard
            # Without protection it may be hurt.
            outcome[way] = (way != "off" and complaint(heard)) or outcome[way]
        except Exception as error:  # a row that can't be run is a row that fails
            outcome[way] = f"{type(error).__name__}: {error}"
        broken = not isinstance(outcome[way], bool)
        if broken or damages and way == "off":
            arena.close()
            arena = Arena()
        elif damages and way == "attack":
            arena.drop(ATTACKER)
    outcome["seconds"] = round(time.monotonic() - start, 2)
    return outcome, arena


def main():
    if len(sys.argv) == 1:
        for kind, name, *_ in ROWS:
            print(json.dumps({"class": kind, "name": name}))
        return
    wanted = sys.argv[3:]
    # Victim and third are the same throughout: whatever is tried on them, they go on.
    arena, witness = Arena(), Witness(sys.argv[2])
    for row in ROWS:
        if not wanted or any(word in f"{row[0]}: {row[1]}" for word in wanted):
            outcome, arena = one(arena, witness, row)
            print(json.dumps(outcome), flush=True)
    arena.close()
    witness.close()


main()
