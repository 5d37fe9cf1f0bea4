#!/bin/sh
# A day of the installed unit under its service manager: start, restart, reload, crash, stop; a service goes on through all of it.
set -eu

eventually() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        if [ "$tries" -ge 600 ]; then
            echo "never: $*"
            systemctl status --no-pager qanatd || true
            exit 1
        fi
        sleep 0.2
    done
}
has_card() { qanat status 2> /dev/null | grep -q '"web"'; }
answers() { [ "$(curl -s --max-time 5 http://10.77.0.2/)" = here ]; }
is_another() { [ "$(systemctl show -p MainPID --value qanatd)" != "$1" ] && systemctl -q is-active qanatd; }
goes_on() {
    eventually has_card
    eventually answers
    echo "after $1: answers"
}

ip link set lo up
mkdir /run/site
echo here > /run/site/index.html
systemctl start qanatd
# Without a pause: started is what clients find.
qanat status > /dev/null
qanat web /run/site > /run/web 2>&1 &
web=$!
goes_on start
systemctl restart qanatd
goes_on restart
systemctl reload qanatd
goes_on reload
daemon=$(systemctl show -p MainPID --value qanatd)
kill -9 "$daemon"
eventually is_another "$daemon"
goes_on crash
systemctl reload qanatd
goes_on "reload after crash"
kill "$web"
wait "$web" || true
systemctl stop qanatd
if ip -o link | grep qanat || [ -e /run/qanat/control.sock ]; then
    echo "after stop: something is left"
    exit 1
fi
echo "after stop: nothing is left"
[ "$(systemctl show -p Result --value qanatd)" = success ]
