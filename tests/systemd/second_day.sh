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
            tail -n 20 /run/services 2> /dev/null || true
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

serves() { [ "$(curl -s --max-time 5 http://10.77.0.3/)" = blog ]; }
resolves() { dig +short +time=2 +tries=1 @10.77.0.53 example.com SOA | grep -q ns1; }
# A service whose process is not PROCESS any more, and which serves.
serves_anew() { [ "$(systemctl show -p MainPID --value "$1")" != "$2" ] && systemctl -q is-active "$1" && "$3"; }

ip link set lo up
groupadd --system --force qanat
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

# Services with units of their own, and without rights. Without a pause, for started is what clients find.
mkdir -p /etc/qanat /srv/blog
echo blog > /srv/blog/index.html
cp /usr/share/qanat-test/example.com.zone /etc/qanat/
printf 'OPTIONS=/srv/blog --address 10.77.0.3/24\n' > /etc/qanat/web-blog.conf
printf 'OPTIONS=--zone example.com=/etc/qanat/example.com.zone --address 10.77.0.53/24\n' > /etc/qanat/dns-home.conf
for service in qanat-web@blog qanat-dns@home; do
    systemctl start "$service" || { systemctl status --no-pager "$service" || true; cat /run/services; exit 1; }
done
serves
resolves
echo "services: started is what clients find"
systemctl reload qanat-web@blog qanat-dns@home
eventually serves
eventually resolves
# What hangs gives no sign of life.
for pair in qanat-web@blog:serves qanat-dns@home:resolves; do
    service=${pair%:*}
    process=$(systemctl show -p MainPID --value "$service")
    [ "$(awk '/^CapEff/ { print $2 }' "/proc/$process/status")" = 0000000000000000 ]
    kill -STOP "$process"
    eventually serves_anew "$service" "$process" "${pair#*:}"
    [ "$(systemctl show -p NRestarts --value "$service")" = 1 ]
done
echo "services: what hangs is started again"
process=$(systemctl show -p MainPID --value qanat-web@blog)
systemctl restart qanatd
eventually serves
eventually resolves
[ "$(systemctl show -p MainPID --value qanat-web@blog)" = "$process" ]
echo "services: the same after the daemon's restart"
systemctl stop qanat-web@blog qanat-dns@home
[ "$(systemctl show -p Result --value qanat-web@blog)" = success ]

systemctl stop qanatd
if ip -o link | grep qanat || [ -e /run/qanat/control.sock ]; then
    echo "after stop: something is left"
    exit 1
fi
echo "after stop: nothing is left"
[ "$(systemctl show -p Result --value qanatd)" = success ]
