# Functions of the script `fetch` that provide the tools for packages and examples.
#
# They use nothing of `fetch`.

# Prints the version of the tool $1 that is compiled with cargo. Other versions may have different rules or write
# different packages. Fails for all other tools.
compiled_version() {
	case $1 in
	cargo-deny) echo 0.20.2 ;;
	cargo-deb) echo 3.8.0 ;;
	cargo-auditable) echo 0.7.7 ;;
	rust-audit-info) echo 0.5.4 ;;
	*) return 1 ;;
	esac
}

# Compiles version $2 of the package $1 with cargo, in the work folder $3, and installs the program in $3/unpacked/bin.
# The build is not optimised, because compiling takes a minute and a run takes a second. The flags for the static dlock
# would prevent procedural macros.
compile() {
	env --unset=RUSTFLAGS \
		CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install --locked "$1" --version "$2" --no-track --root "$3/unpacked" --target-dir "$3/target"
}

# Creates bin/$2 in the unpacked folder $1: a script that runs /usr/bin/$2 with root/ as the root directory, because the
# program starts other programs and reads files by absolute paths. The program sees the current folder as /mnt, and the
# processes in /proc. The mounts exist only in the mount namespace of the program. The script needs root, or a kernel
# that allows user namespaces.
write_chroot_program() {
	mkdir -p "$1/$tree/mnt" "$1/$tree/proc" "$1/$tree/tmp" "$1/$tree/var/tmp" "$1/$tree/etc" || return 1
	# The scripts that create the first account have not run.
	echo 'root:x:0:0:root:/tmp:/bin/sh' >"$1/$tree/etc/passwd"
	echo 'root:x:0:' >"$1/$tree/etc/group"
	cat >"$1/bin/$2" <<-END
		#!/bin/sh
		[ "\$(id -u)" = 0 ] && user= || user='--user --map-root-user'
		export HOME=/tmp TMPDIR=/tmp XDG_RUNTIME_DIR=/tmp LC_ALL=C.UTF-8
		exec unshare \$user --mount sh -c '
			mount --bind "\$1" "\$1" && mount --bind . "\$1/mnt" && mount --rbind /proc "\$1/proc" || exit 1
			root=\$1 && shift && PATH=/usr/sbin:/usr/bin:/sbin:/bin && exec chroot "\$root" "\$@"
		' sh "\${0%bin/*}root" "/usr/bin/$2" "\$@"
	END
	chmod +x "$1/bin/$2"
}
