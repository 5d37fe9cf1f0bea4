# Qanat: build, run, test. Everything a target needs is installed by it (Debian 12, a Rust toolchain already there).

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# What tools/package makes packages by.
PACKAGE_PACKAGES := dpkg-dev binutils git
IMAGE_PACKAGES := mmdebstrap umoci
BOOK_PACKAGES := python3-sphinx python3-myst-parser furo
ARM64_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
BUILD_PACKAGES := clang libbpf-dev linux-libc-dev
# What tests/tests/e2e_programs tries, and what asks it: some 50 MB.
PROGRAMS := mini-httpd webfs busybox h2o nghttp2-server nghttp2-client nghttp2-proxy php8.2-cli gunicorn python3-gevent uwsgi-core \
	uwsgi-plugin-python3 python3-waitress python3-tornado python3-twisted python3-uvloop python3-zmq ruby ruby-webrick puma libhttp-daemon-perl \
	lua5.1 lua-copas erlang-base tcl mono-mcs socat openssl stunnel4 tinyproxy varnish nutcracker microsocks dante-server rinetd privoxy \
	pgbouncer mosquitto mosquitto-clients beanstalkd ngircd icecast2 iperf sockperf qperf dnsmasq-base unbound tftpd-hpa tftp-hpa snmpd snmp \
	chrony coturn rsync git vsftpd lftp openssh-server openssh-client nbdkit libnbd-bin aria2 apache2-utils netcat-openbsd liburing-dev
TEST_PACKAGES := iproute2 ethtool curl wrk nginx-light chromium brotli python3 procps iputils-ping \
	bind9-dnsutils bind9-utils dnsperf knot knot-dnssecutils knot-dnsutils ldnsutils nsd redis-server memcached haproxy lighttpd postgresql iperf3 \
	apache2-bin netpipe-tcp bind9 ncat nodejs openjdk-17-jdk-headless wget gdb strace systemd libseccomp2 fio openssl gnutls-bin nghttp2-client python3-h2 ffmpeg libmemcached-tools python3-pymemcache man-db zsh fish runc gcc golang-go pkg-config $(PACKAGE_PACKAGES) $(IMAGE_PACKAGES) $(BOOK_PACKAGES) $(ARM64_PACKAGES) $(PROGRAMS)
# Peers and tools of the tables: testpmd with its drivers for memif and AF_XDP, perf, name servers and Knot's load.
BENCH_PACKAGES := dpdk-dev linux-perf knot knot-dnsutils nsd rocksdb-tools
QANAT := target/release/qanat

# A build from nothing is a fifth shorter without what the next one would profit from. Where that is kept already, it goes on.
ifeq ($(wildcard target/debug/incremental/*),)
export CARGO_INCREMENTAL := 0
endif

.PHONY: run build test test-unit test-system test-busy test-waiting test-hostile test-hardware packetdrill redis-suite cache-clients arm64 lint fuzz posix-table bench bench-quick bench-breakdown bench-instructions soak deps test-deps bench-deps install uninstall package image book clean help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: build ## build, then serve the sample site at http://10.77.0.2/ until Ctrl-C
	$(SUDO) $(QANAT) web site

build: deps ## the release binary, target/release/qanat, the library of `qanat run`, and the one for C
	cargo build --release --package qanat-cli --package qanat-posix --package qanat-native
	@tools/native

PREFIX := /usr/local
LIBRARY := target/release/libqanat_posix.so
NATIVE := target/release/libqanat-native.so.1
# Written by hand; those of each command are of what its --help says.
MANUALS := $(wildcard docs/man/*.[18])
UNITS := qanatd.service qanat-web@.service qanat-dns@.service
# A shell, and where it finds what it completes by, below PREFIX/share.
COMPLETIONS := bash:bash-completion/completions/qanat zsh:zsh/site-functions/_qanat fish:fish/vendor_completions.d/qanat.fish

install: ## what `make build` made, under PREFIX (/usr/local) below DESTDIR; an existing policy is kept
	@test -x $(QANAT) -a -f $(LIBRARY) -a -f $(NATIVE) || { echo "there is nothing to install yet: make build (not as root)" >&2; exit 1; }
	install -D -m 755 $(QANAT) $(DESTDIR)$(PREFIX)/bin/qanat
	install -D -m 644 $(LIBRARY) $(DESTDIR)$(PREFIX)/lib/qanat/libqanat.so
	install -D -m 644 $(NATIVE) $(DESTDIR)$(PREFIX)/lib/libqanat-native.so.1
	ln -sf libqanat-native.so.1 $(DESTDIR)$(PREFIX)/lib/libqanat-native.so
	install -D -m 644 crates/native/include/qanat-native.h $(DESTDIR)$(PREFIX)/include/qanat-native.h
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	umask 022; sed -e 's|@PREFIX@|$(PREFIX)|' -e "s|@VERSION@|$$($(QANAT) --version | cut -d' ' -f2)|" packaging/qanat-native.pc > \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig/qanat-native.pc
	@# As root the linker is told of the new library. In a directory of another's making that is his affair.
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true
	for page in $(MANUALS); do \
		install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; done
	umask 022; $(QANAT) manual --to $(DESTDIR)$(PREFIX)/share/man/man1 --quiet
	for of in $(COMPLETIONS); do \
		install -d $(DESTDIR)$(PREFIX)/share/$$(dirname $${of#*:}) || exit 1; \
		umask 022; $(QANAT) completions $${of%%:*} > $(DESTDIR)$(PREFIX)/share/$${of#*:} || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in $(UNITS); do \
		sed 's|/usr/bin/qanat|$(PREFIX)/bin/qanat|' packaging/$$unit > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit || exit 1; done
	install -D -m 644 packaging/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/qanat.conf
	test -e $(DESTDIR)/etc/qanat/qanat.toml || install -D -m 644 packaging/qanat.toml $(DESTDIR)/etc/qanat/qanat.toml

uninstall: ## takes away what `make install` put there; the policy in /etc/qanat stays
	rm -f $(DESTDIR)$(PREFIX)/bin/qanat $(UNITS:%=$(DESTDIR)$(PREFIX)/lib/systemd/system/%)
	rm -rf $(DESTDIR)$(PREFIX)/lib/qanat $(DESTDIR)$(PREFIX)/lib/libqanat-native.so*
	rm -f $(DESTDIR)$(PREFIX)/include/qanat-native.h $(DESTDIR)$(PREFIX)/lib/pkgconfig/qanat-native.pc
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true
	rm -f $(DESTDIR)$(PREFIX)/lib/sysusers.d/qanat.conf
	for page in $(MANUALS); do rm -f $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}; done
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/qanat-*.1
	for of in $(COMPLETIONS); do rm -f $(DESTDIR)$(PREFIX)/share/$${of#*:}; done

package: build ## Debian packages of what `make build` made, and of its debug symbols, in target/package
	@tools/install-packages $(PACKAGE_PACKAGES)
	tools/package target/package

image: package ## an OCI image of Debian 12 and that package, in target/image, without a daemon of containers
	@tools/install-packages $(IMAGE_PACKAGES)
	$(SUDO) tools/image target/package/qanat_*.deb target/image

book: build ## all that is written here as pages for a browser, with search and a page for each command, in target/book
	@tools/install-packages $(BOOK_PACKAGES)
	tools/book target/book

# Installs only what is missing; silent when all is there.
deps:
	@tools/install-packages $(BUILD_PACKAGES)

test-deps: deps
	@tools/install-packages $(TEST_PACKAGES)

PUBLISHED := qanat-wire qanat-nic qanat-api qanat-abi qanat-disk qanat-stack qanat-control qanat qanat-native

lint: ## formatting, clippy, and the house rules
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --quiet
	@# What a program of the native API is built of can be published. That it builds from there was seen by hand: it takes minutes.
	cargo package --quiet --no-verify --allow-dirty --exclude-lockfile --target-dir target/crates $(addprefix --package ,$(PUBLISHED))

# The workspace's test programs, in one of five lists each (tests/tests/tidy/main.rs sees to that). All are chosen by name from the
# whole workspace, for cargo builds what lies below anew for every other choice of packages: their features would differ.
UNIT_TESTS := address_conflict allocation arbitrary bounded capture checksum dead_neighbour disk driver echo_disk fast_open header ipv6_addresses keyvalue model over_the_stack paths_and_windows receive_memory \
	remembered_paths round_trip side_channels simulator split store tidy two_stacks vlan
SYSTEM_TESTS := dns e2e_bench e2e_cache e2e_delay e2e_echo e2e_kv e2e_placements e2e_programs e2e_run e2e_split e2e_video packetdrill socket_cases veth
HOSTILE_TESTS := faults hostile_control hostile_split
# They are in namespaces of their own and mostly wait: they run beside the others.
WAITING_TESTS := book debian_package dns_peers dns_transfer dns_validation e2e_areas e2e_disk e2e_disk_core e2e_export e2e_native e2e_net_core_queues e2e_net_cores e2e_system examples forwarding packaging power_loss readme scripts support
HARDWARE_TESTS := hardware

# Tests call `make` themselves, which is not to ask this one for jobs. HUP is as it is in a terminal, though `nohup` or a manager may have
# started this: services are told to reload by it.
# Test programs that need root are built as the user and run by this.
SYSTEM_RUNNER := $(if $(SUDO),CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E")

test-unit: deps ## unit and property tests, the simulator, the house rules: no root needed
	cargo test --workspace --quiet --lib --bins $(addprefix --test ,$(UNIT_TESTS))
	env --unset=MAKEFLAGS --unset=MFLAGS cargo test --workspace --quiet --doc

RUN_SYSTEM = $(SYSTEM_RUNNER) QANAT_REQUIRE_ROOT=1 QANAT_BIN=$(CURDIR)/$(QANAT) env --unset=MAKEFLAGS --unset=MFLAGS --default-signal=HUP,INT,QUIT \
	cargo test --workspace --no-fail-fast $(addprefix --test ,$(1)) -- --test-threads=1

test-system: test-busy test-waiting test-hostile ## segment scripts, end to end over veth with real programs, hostile users, faults: as root

test-busy: build test-deps
	$(call RUN_SYSTEM,$(SYSTEM_TESTS))

test-waiting: build test-deps
	$(call RUN_SYSTEM,$(WAITING_TESTS))

test-hostile: build test-deps
	$(call RUN_SYSTEM,$(HOSTILE_TESTS))

test-hardware: build ## drivers of PCI functions, in a virtual machine with an IOMMU, NVMe and SR-IOV: no root needed
	@tools/hardware-machine
	QANAT_REQUIRE_ROOT=1 cargo test --workspace $(addprefix --test ,$(HARDWARE_TESTS)) -- --nocapture

posix-table: build ## the tables of what `qanat run` supports, and of programs that were tried, in docs/posix.md
	QANAT_UPDATE=1 QANAT_BIN=$(CURDIR)/$(QANAT) cargo test --package qanat-socket-cases --test support
	QANAT_UPDATE=1 cargo test --package qanat-tests --test e2e_programs the_document_has_the_table

fuzz: deps ## every fuzz target for a bounded time (SECONDS_EACH=3)
	cargo test --workspace --quiet --test fuzz-bounded -- --seconds $(or $(SECONDS_EACH),3)

# Half of the time one processor is enough for unit tests, so what the system tests need is built beside them. System tests mostly wait, the
# virtual machine is one processor, and neither fuzzing nor ARM64 asks for a device: they run beside each other. If one of those fails, the
# others are run all the same: what else is wrong is told by the same run.
test: test-deps lint ## everything; what CI runs
	$(MAKE) --jobs=2 --keep-going test-unit build
	QANAT_ARM64_LACKS=0 $(MAKE) --jobs=2 --keep-going test-busy test-hardware fuzz test-waiting test-hostile arm64

packetdrill: deps ## Google's packetdrill scripts against the sockets of `qanat run` (PACKETDRILL=/path/to/a/checkout if there is one)
	@tools/install-packages git gcc make bison flex python3 iproute2
	cargo build --release --package qanat-packetdrill
	tools/packetdrill $(SCRIPTS)

arm64: deps ## everything builds for ARM64, and what is written for it in assembly works under an emulator
	@tools/install-packages $(ARM64_PACKAGES)
	tools/arm64

cache-clients: build ## client libraries for Node and Java against `qanat cache` and memcached: each call is answered alike
	@tools/install-packages memcached nodejs npm openjdk-17-jdk-headless python3
	QANAT_BIN=$(CURDIR)/$(QANAT) tools/cache-clients

redis-suite: build ## Redis' own test suite against `qanat kv`, into docs/measurements/redis-suite.md (UNITS="unit/type/set ..." for some)
	@tools/install-packages redis-server redis-tools tcl iproute2 python3
	$(SUDO) QANAT_BIN=$(CURDIR)/$(QANAT) $(if $(REDIS_SUITE),REDIS_SUITE=$(REDIS_SUITE)) tools/redis-suite $(UNITS)

soak: build ## faults for SECONDS=3600, the simulator over many more seeds (SEEDS=10000), stores crashed STORE_SEEDS=1000000 times, cards made and removed (CYCLES=10000)
	$(SYSTEM_RUNNER) QANAT_REQUIRE_ROOT=1 QANAT_BIN=$(CURDIR)/$(QANAT) QANAT_SECONDS=$(or $(SECONDS),3600) QANAT_SEED=$(or $(SEED),$(shell date +%s)) \
		cargo test --package qanat-tests --test faults -- --nocapture
	QANAT_SEEDS=$(or $(SEEDS),10000) cargo test --package qanat-tests --release --test simulator -- --nocapture
	QANAT_SEEDS=$(or $(STORE_SEEDS),1000000) cargo test --package qanat-store --release --test store what_was -- --nocapture
	QANAT_SEEDS=$(or $(SEEDS),10000) cargo test --package qanat-store --release --test store -- --nocapture --skip what_was --skip every_crash
	$(SYSTEM_RUNNER) QANAT_REQUIRE_ROOT=1 QANAT_CYCLES=$(or $(CYCLES),10000) \
		cargo test --package qanat-tests --release --test hostile_control cycles_leave -- --nocapture

bench: build bench-deps ## every table, and bench.html with all of them (an hour)
	$(SUDO) $(QANAT) bench --all --report bench.html

bench-quick: build bench-deps ## the same in some minutes, less exact
	$(SUDO) $(QANAT) bench --all --quick --report bench.html

# In a directory of its own: a program that counts cycles is not the one to measure rates with.
bench-breakdown: deps bench-deps ## where the time of a packet goes, by cycle counters (QUICK=--quick)
	cargo build --release --package qanat-cli --package qanat-posix --target-dir target/breakdown \
		--features qanat-cli/breakdown,qanat-posix/breakdown
	$(SUDO) target/breakdown/release/qanat bench breakdown $(QUICK) --report bench-breakdown.html

bench-instructions: deps ## instructions per unit of work into bench/instructions.txt: a change there is to be reviewed
	@tools/install-packages valgrind
	tools/instructions --update
	@git --no-pager diff -- bench/instructions.txt

bench-deps: test-deps
	@tools/install-packages $(BENCH_PACKAGES)

clean: ## remove build products
	cargo clean
