# Checks of the Debian package and of the RPM, in a fresh Debian. To be sourced by
# tests/nightly/packages.

# The folder of a fresh Debian with the package's dependencies, for chroot.
debian=

# in_debian: lays a fresh Debian, and installs the package in it.
in_debian() {
    local base=$work/base.tar codename
    [ -z "$debian" ] || return 0
    [ "$(id -u)" = 0 ] || fail "needs root, for chroot"
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    if ! [ -s "$base" ]; then
        rm -rf "$work/bootstrap"
        debootstrap --variant=minbase --include=systemd,ca-certificates,strace \
            "$codename" "$work/bootstrap" >"$work/debootstrap.log" ||
            fail "debootstrap failed: $(tail -3 "$work/debootstrap.log")"
        rm -f "$work/bootstrap"/var/cache/apt/archives/*.deb
        tar --create --one-file-system --directory "$work/bootstrap" --file "$base.part" .
        mv "$base.part" "$base"
        rm -rf "$work/bootstrap"
    fi
    debian=$work/debian
    rm -rf --one-file-system "$debian"
    mkdir -p "$debian"
    tar --extract --directory "$debian" --file "$base"
    mount -t proc proc "$debian/proc"
    cp "$files"/*.deb "$debian/srv/"
    in_chroot sh -c 'dpkg --install /srv/tstar_*.deb' >"$work/dpkg.log" 2>&1 ||
        fail "deb: $(cat "$work/dpkg.log")"
}

leave_debian() {
    [ -n "$debian" ] || return 0
    umount "$debian/proc" 2>/dev/null || true
    rm -rf --one-file-system "$debian"
    debian=
}

in_chroot() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$(echo ~root)" LC_ALL=C.UTF-8 chroot "$debian" "$@"
}

# expect FILE MODE OWNER: of an installed file.
expect() {
    local found
    found=$(in_chroot stat --format '%a %U' "$1") || fail "$package: no $1"
    [ "$found" = "$2 $3" ] || fail "$package: $1 is $found, not $2 $3"
}

# Starts what the unit starts, as its user and in its folder, and stops it.
check_service() {
    local port command unit=$debian/usr/lib/systemd/system/tstar.service
    in_chroot install -d -m 750 -o tstar -g tstar /var/lib/tstar
    port=$(free_port)
    command=$(sed -n 's/^ExecStart=//p' "$unit" | sed 's/\$RUN_FLAGS/--from earliest/')
    start_daemon env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin TSTAR_LISTEN="127.0.0.1:$port" \
        TSTAR_BROKERS=127.0.0.1:1 chroot --userspec=tstar:tstar "$debian" \
        sh -c "umask 0077; cd /var/lib/tstar && exec $command"
    await_daemon "$port"
    [ "$(in_chroot stat --format %U "/proc/$daemon")" = tstar ] ||
        fail "$package: the service does not run as tstar"
    kill -TERM "$daemon"
    stop_daemon
    # Its user can build trips in its folder, and in no other.
    in_chroot setpriv --reuid=tstar --regid=tstar --clear-groups --no-new-privs \
        sh -c 'cd /var/lib/tstar && tstar demo </dev/null >/dev/null && tstar trips truck-17 \
            --store sqlite:tstar-demo.db --limit 1' >"$work/trips.txt" 2>&1 ||
        fail "$package: no trips: $(cat "$work/trips.txt")"
    grep -q '"device_id":"truck-17"' "$work/trips.txt" || fail "$package: $(cat "$work/trips.txt")"
    expect /var/lib/tstar/tstar-demo.db 600 tstar
    pass "$package: the service's command runs as tstar, answers, and stops with 0"
}

check_files() {
    expect /usr/bin/tstar 755 root
    expect /etc/tstar/tstar.toml 644 root
    expect /etc/tstar/tstar.env 600 root
    in_chroot tstar config check --config /etc/tstar/tstar.toml >/dev/null ||
        fail "$package: the program refuses the settings file"
    in_chroot getent passwd tstar | grep -q ':/var/lib/tstar:/usr/sbin/nologin$' ||
        fail "$package: the user tstar is $(in_chroot getent passwd tstar)"
}

check_deb() {
    local deb broken said package=deb
    deb=$(echo "$files"/tstar_*.deb)
    said=$(lintian --allow-root --profile debian --fail-on error,warning,info "$deb" 2>&1) || fail "deb: $said"
    pass "deb: lintian, with ${said:-nothing to report}"
    rm -rf "$work/broken" && dpkg-deb --raw-extract "$deb" "$work/broken"
    chmod 777 "$work/broken/usr/bin/tstar"
    dpkg-deb --root-owner-group --build "$work/broken" "$work/broken.deb" >/dev/null
    broken=$(lintian --allow-root --profile debian --fail-on error,warning "$work/broken.deb" 2>&1) &&
        fail "deb: lintian passes a program that everyone can write"
    grep -q non-standard-executable-perm <<<"$broken" || fail "deb: lintian said $broken"
    in_debian
    check_files
    [ ! -e "$debian/etc/systemd/system/multi-user.target.wants/tstar.service" ] ||
        fail "deb: the service is enabled before it has brokers"
    check_service
    # An upgrade keeps what the operator wrote; a removal keeps settings and trips.
    echo '# mine' >>"$debian/etc/tstar/tstar.toml"
    in_chroot sh -c 'dpkg --install /srv/tstar_*.deb' >"$work/dpkg.log" 2>&1 ||
        fail "deb: the package cannot be installed over itself: $(cat "$work/dpkg.log")"
    grep -q '^# mine$' "$debian/etc/tstar/tstar.toml" || fail "deb: settings were overwritten"
    in_chroot dpkg --remove tstar >"$work/dpkg.log" 2>&1 || fail "deb: $(cat "$work/dpkg.log")"
    [ ! -e "$debian/usr/bin/tstar" ] && [ -e "$debian/etc/tstar/tstar.toml" ] ||
        fail "deb: remove left the program, or took the settings"
    in_chroot dpkg --purge tstar >"$work/dpkg.log" 2>&1 || fail "deb: $(cat "$work/dpkg.log")"
    [ ! -e "$debian/etc/tstar" ] && [ -e "$debian/var/lib/tstar/tstar-demo.db" ] ||
        fail "deb: purge left settings, or took trips"
    pass "deb: installed, upgraded, removed and purged; settings and trips are kept as documented"
    leave_debian
}

# The package of another distribution, in the same Debian: rpm runs its scripts there.
check_rpm() {
    local rpm said package=rpm
    rpm=$(echo "$files"/tstar-*.rpm)
    said=$(rpmlint --config "$here/rpmlint.toml" "$rpm" 2>&1) || fail "rpm: $said"
    grep -q ' 0 errors, 0 warnings' <<<"$said" || fail "rpm: $said"
    pass "rpm: rpmlint, $(grep -o '[0-9]* errors, [0-9]* warnings' <<<"$said")"
    rpm --query --package --requires "$rpm" 2>/dev/null | grep -q '^libc\.so\.6(' ||
        fail "rpm: does not require the C library"
    rpm --checksig "$rpm" >/dev/null || fail "rpm: $(rpm --checksig "$rpm" 2>&1)"
    in_debian
    in_chroot dpkg --purge tstar >"$work/dpkg.log" 2>&1 || fail "rpm: $(cat "$work/dpkg.log")"
    in_chroot userdel tstar
    local rpm_there="rpm --root $debian --dbpath /var/lib/rpm --force-debian --nodeps"
    rpm --root "$debian" --dbpath /var/lib/rpm --initdb
    $rpm_there --install "$rpm" >"$work/rpm.log" 2>&1 || fail "rpm: $(cat "$work/rpm.log")"
    check_files
    check_service
    [ -z "$($rpm_there --verify tstar)" ] || fail "rpm: $($rpm_there --verify tstar)"
    echo '# mine' >>"$debian/etc/tstar/tstar.toml"
    said=$($rpm_there --verify tstar) && fail "rpm: a changed file was not noticed"
    $rpm_there --install --replacepkgs "$rpm" >"$work/rpm.log" 2>&1 ||
        fail "rpm: $(cat "$work/rpm.log")"
    grep -q '^# mine$' "$debian/etc/tstar/tstar.toml" || fail "rpm: settings were overwritten"
    $rpm_there --erase tstar >"$work/rpm.log" 2>&1 || fail "rpm: $(cat "$work/rpm.log")"
    [ -e "$debian/etc/tstar/tstar.toml.rpmsave" ] && [ ! -e "$debian/usr/bin/tstar" ] ||
        fail "rpm: removing it left the program, or took the settings"
    pass "rpm: installed, replaced, verified and removed"
    leave_debian
}
