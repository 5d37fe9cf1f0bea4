#!/bin/sh
# Boots systemd in namespaces of its own, over a copy of this machine's files, with Qanat installed by `make install`'s layout, and has it
# run second_day.sh. Its exit code is that script's; what the script says is in DIRECTORY/said.
#
#   boot.sh DIRECTORY COMMAND LIBRARY     DIRECTORY is empty, and for this run alone; run by root
set -eu
here=$(dirname "$(realpath "$0")")

# In control groups of its own, so that nothing of it stays.
if [ "${4:-}" != inside ]; then
    groups=""
    for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
        [ -e "$hierarchy/cgroup.procs" ] || continue
        mkdir "$hierarchy/qanat-test-$$"
        groups="$groups $hierarchy/qanat-test-$$"
    done
    (
        own=$(exec sh -c 'echo $PPID')
        for group in $groups; do echo "$own" > "$group/cgroup.procs"; done
        exec unshare --pid --fork --kill-child --mount --net --uts --ipc --cgroup "$0" "$1" "$2" "$3" inside
    ) && code=0 || code=$?
    for group in $groups; do
        # What was just killed leaves it a moment later.
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            find "$group" -depth -type d -exec rmdir {} + 2> /dev/null || true
            [ -d "$group" ] || break
            sleep 0.2
        done
    done
    exit "$code"
fi

mount --make-rprivate /
mkdir "$1/place"
mount -t tmpfs tmpfs "$1/place"
root=$1/place/root
mkdir "$1/place/changes" "$1/place/work" "$root"
mount -t overlay none -o "lowerdir=/,upperdir=$1/place/changes,workdir=$1/place/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
    mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
fi
mount -t bpf bpf "$root/sys/fs/bpf"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"

cp "$2" "$root/usr/bin/qanat"
cp "$3" "$root/usr/bin/libqanat.so"
chmod 755 "$root/usr/bin/qanat" "$root/usr/bin/libqanat.so"
units=$root/etc/systemd/system
cp "$here/../../packaging/"*.service "$units/"
mkdir -p "$root/usr/share/qanat-test"
cp "$here/../../packaging/example.com.zone" "$root/usr/share/qanat-test/"
# What hangs is found out sooner here; what they say is kept, for there is no journal.
for unit in qanat-web@ qanat-dns@; do
    mkdir -p "$units/$unit.service.d"
    printf '[Service]\nWatchdogSec=10\nTimeoutAbortSec=2\nStandardOutput=append:/run/services\nStandardError=append:/run/services\n' > "$units/$unit.service.d/soon.conf"
done
cp "$here/second_day.sh" "$root/usr/bin/second_day"
chmod 755 "$root/usr/bin/second_day"
# Where root may not raise the limit on locked memory (CAP_SYS_RESOURCE), LimitMEMLOCK= does nothing.
if ! (ulimit -l unlimited) 2> /dev/null; then
    for unit in "$here/../../packaging/"*.service; do
        drop="$units/$(basename "$unit").d"
        mkdir -p "$drop"
        printf '[Service]\nCapabilityBoundingSet=CAP_IPC_LOCK\n' > "$drop/lock.conf"
    done
fi
# Nothing of this machine's is started: no devices, no modules, no file systems.
cat > "$units/second-day.service" << 'UNIT'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/usr/bin/second_day > /run/said 2>&1; systemctl exit $?'
UNIT
cat > "$units/second-day.target" << 'UNIT'
[Unit]
Wants=second-day.service
AllowIsolate=yes
UNIT
printf '[Unit]\nDefaultDependencies=no\n' > "$units/sysinit.target"
for unit in basic.target network.target; do printf '[Unit]\n' > "$units/$unit"; done
ln -sf second-day.target "$units/default.target"
: > "$root/etc/fstab"
touch "$1/said" "$root/run/said"
mount --bind "$1/said" "$root/run/said"
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /lib/systemd/systemd --log-target=null --show-status=no
