# Rendered from the grammar and completions/parts/dlock.fish by:
# DLOCK_UPDATE=1 cargo test --locked --test it generated
# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_dlock_global_optspecs
    string join \n q/quiet v/verbose log-format= url= url-file= defaults-file= host= port= socket= user= password-file= database= ssl-mode= ssl-ca= ssl-cert= ssl-key= h/help V/version
end

function __fish_dlock_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_dlock_global_optspecs) -- $cmd 2>/dev/null
    or argparse -s (__fish_dlock_global_optspecs) -- $cmd '' 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_dlock_using_subcommand
    set -l cmd (__fish_dlock_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c dlock -n "__fish_dlock_needs_command" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_needs_command" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_needs_command" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_needs_command" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_needs_command" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_needs_command" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_needs_command" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_needs_command" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_needs_command" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_needs_command" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "exec" -d 'Run a command while holding the lock'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "hold" -d 'Hold the lock for a program that dlock has not started'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "status" -d 'Show holders and waiters'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "list" -d 'List all locks'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "ls" -d 'List all locks'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "wait" -d 'Wait until a lock is free, or until a run with --once has succeeded'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "check" -d 'Check whether a token is current'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "leader" -d 'Print the leader: the holder of a lock'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "note" -d 'Change the note of the run under which this command runs'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "history" -d 'Show the most recent runs and their outcomes'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "forget" -d 'Delete the recorded success of exec --once'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "release" -d 'Revoke a lease, or pause or resume a lock'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "prune" -d 'Remove locks that nobody has used for a long time'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "explain" -d 'Explain an exit status, and what to do next'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "setup" -d 'Create or upgrade the tables, or print the SQL statements'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "serve" -d 'Serve a page with all locks, and metrics for monitoring'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "doctor" -d 'Check the server, the account, the tables and the settings'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "copy-to" -d 'Copy this program to a path, for images without a shell'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "version" -d 'Print the versions of the program and the schema'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "help" -d 'Print the long help of dlock or of a subcommand'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s a -l action -d 'Name of the lock, instead of NAME; give the option again for each further lock' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s t -l ttl -d 'Length of the lease' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s w -l wait -d 'Maximum time to wait for the lock; 0 makes one attempt' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s E -l conflict-exit-code -d 'Exit status if the lock was held or paused until the waiting time ran out, or sessions of an earlier run did not end' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l connect-timeout -d 'Maximum time to wait for the server\'s first response; 0 makes one attempt' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l max-runtime -d 'Maximum runtime; a longer run must stop, and dlock exits with 124' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l stop-signal -d 'First signal when dlock stops the command, or PID, and all descendants' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l server-sessions -d 'Treatment of sessions that a killed or failed command leaves on the server' -r -f -a "kill\t'Kill the sessions, and wait until they are gone'
wait\t'Wait until the sessions execute no statement any more'
ignore\t'Do not look for sessions, and do not wait for them'"
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l heartbeat-file -d 'File that must change regularly to keep the lease' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l holder -d 'Name of this holder, as shown by dlock status [default: HOST/PID]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l note -d 'Note in dlock status, for example the reason for the run' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l slots -d 'Let up to N holders have the lock at once, including this one' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l history -d 'Keep at least the latest N runs in the history; 0 does not record this run' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l metrics-file -d 'File to which dlock writes the metrics of this run, in the Prometheus text format' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l on-event -d 'Hook to run with sh -c when the lease is granted, lost or released, and when the run is skipped' -r -f -a "(__fish_complete_command)"
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l once -d 'Run the command only if no run with this option has succeeded yet; otherwise exit with 0' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l once-per -d 'Run the command only if no run has succeeded within this period; otherwise exit with 0' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l min-hold -d 'Minimum time for which the lock is held after the grant' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l grace -d 'Time between the stop signal and SIGKILL when dlock stops the command [default: a sixth of the ttl, at most 10s]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s n -l nonblock -d 'Do not wait for the lock; overrides --wait'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l shared -d 'Hold the lock together with any number of others that use --shared'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l fence -d 'Write the token to the action\'s fence, for dlock check --sql'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l hide-credentials -d 'Keep the connection variables, such as DLOCK_URL, from the command'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l hide-args -d 'Store only the name of the command in the tables, not its arguments'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s a -l action -d 'Name of the lock, instead of NAME; give the option again for each further lock' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s t -l ttl -d 'Length of the lease' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s w -l wait -d 'Maximum time to wait for the lock; 0 makes one attempt' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s E -l conflict-exit-code -d 'Exit status if the lock was held or paused until the waiting time ran out, or sessions of an earlier run did not end' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l connect-timeout -d 'Maximum time to wait for the server\'s first response; 0 makes one attempt' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l max-runtime -d 'Maximum runtime; a longer run must stop, and dlock exits with 124' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l stop-signal -d 'First signal when dlock stops the command, or PID, and all descendants' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l server-sessions -d 'Treatment of sessions that a killed or failed command leaves on the server' -r -f -a "kill\t'Kill the sessions, and wait until they are gone'
wait\t'Wait until the sessions execute no statement any more'
ignore\t'Do not look for sessions, and do not wait for them'"
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l heartbeat-file -d 'File that must change regularly to keep the lease' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l holder -d 'Name of this holder, as shown by dlock status [default: HOST/PID]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l note -d 'Note in dlock status, for example the reason for the run' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l slots -d 'Let up to N holders have the lock at once, including this one' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l history -d 'Keep at least the latest N runs in the history; 0 does not record this run' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l metrics-file -d 'File to which dlock writes the metrics of this run, in the Prometheus text format' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l on-event -d 'Hook to run with sh -c when the lease is granted, lost or released, and when the run is skipped' -r -f -a "(__fish_complete_command)"
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l pid -d 'Process for which the lock is held, normally of this user; prints commands for a shell' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l on-lost -d 'If the lock is lost: stop PID and its descendants, or only report it [default: stop]' -r -f -a "stop\t'Stops the process and its descendants'
report\t'Reports it'"
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l state-file -d 'File that shows the lock, its token, stop_at_ms and deadline_ms as a JSON object while the lock is held' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l grace -d 'Time from stop_at_ms or the stop signal to deadline_ms, in which the work must end [default: a sixth of the ttl, at most 10s]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s n -l nonblock -d 'Do not wait for the lock; overrides --wait'
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l shared -d 'Hold the lock together with any number of others that use --shared'
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l fence -d 'Write the token to the action\'s fence, for dlock check --sql'
complete -c dlock -n "__fish_dlock_using_subcommand hold" -l json -d 'Print each event as one JSON object on one line of stdout'
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand hold" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s a -l action -d 'Action to show; this option may be repeated' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand status" -l color -d 'Use of colours; auto uses colours on a terminal, unless NO_COLOR is set and not empty' -r -f -a "auto\t'Use colours on a terminal, unless NO_COLOR is set and not empty'
always\t'Always use colours'
never\t'Never use colours'"
complete -c dlock -n "__fish_dlock_using_subcommand status" -l watch -d 'Refresh the output at the given interval, until the user presses q or Ctrl-C [default interval: 1s]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand status" -l operator -d 'Name of the operator for a release on the --watch screen [default: USER@HOST]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand status" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand status" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand status" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand status" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand status" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand status" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand status" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand status" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l all -d 'Show all actions, including free actions without waiters'
complete -c dlock -n "__fish_dlock_using_subcommand status" -l json -d 'Print JSON instead of tables; see dlock-status(1) for the format'
complete -c dlock -n "__fish_dlock_using_subcommand status" -l check -d 'Print nothing, and exit with 75 if any of the actions is held or paused, or with 0 if none is'
complete -c dlock -n "__fish_dlock_using_subcommand status" -l statements -d 'Also show the statements of the command\'s sessions on the server, at most 80 characters of each'
complete -c dlock -n "__fish_dlock_using_subcommand status" -l wide -d 'Show all columns in full, also on a terminal that is too narrow for them'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand list" -l color -d 'Use of colours; auto uses colours on a terminal, unless NO_COLOR is set and not empty' -r -f -a "auto\t'Use colours on a terminal, unless NO_COLOR is set and not empty'
always\t'Always use colours'
never\t'Never use colours'"
complete -c dlock -n "__fish_dlock_using_subcommand list" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand list" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand list" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand list" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand list" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand list" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand list" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand list" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand list" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand list" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand list" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand list" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand list" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand list" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand list" -l json -d 'Print JSON instead of a table; see dlock-status(1) for the format'
complete -c dlock -n "__fish_dlock_using_subcommand list" -l wide -d 'Show all columns in full, also on a terminal that is too narrow for them'
complete -c dlock -n "__fish_dlock_using_subcommand list" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand list" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand list" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l color -d 'Use of colours; auto uses colours on a terminal, unless NO_COLOR is set and not empty' -r -f -a "auto\t'Use colours on a terminal, unless NO_COLOR is set and not empty'
always\t'Always use colours'
never\t'Never use colours'"
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l json -d 'Print JSON instead of a table; see dlock-status(1) for the format'
complete -c dlock -n "__fish_dlock_using_subcommand ls" -l wide -d 'Show all columns in full, also on a terminal that is too narrow for them'
complete -c dlock -n "__fish_dlock_using_subcommand ls" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand ls" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand ls" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s a -l action -d 'Name of the lock, instead of NAME' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l done -d 'Wait until exec --once (or --once=KEY) has succeeded, not until the lock is free' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l timeout -d 'Maximum time to wait, measured from the start of dlock wait; 0 checks once' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l connect-timeout -d 'Maximum time without a response from the server; 0 makes one attempt' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s a -l action -d 'Name of the lock, instead of NAME' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand check" -l token -d 'Fencing token to check; under dlock exec, the default is the token of the current run' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand check" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand check" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand check" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand check" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand check" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand check" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand check" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand check" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l sql -d 'Print an SQL statement that checks the token in a transaction; requires exec --fence'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand leader" -s a -l action -d 'Name of the lock, instead of NAME' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand leader" -s w -l wait -d 'Maximum time to wait for a leader; 0 checks once' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand leader" -s f -l follow -d 'Print a line for each change until the user presses Ctrl-C; an empty line means that there is no leader'
complete -c dlock -n "__fish_dlock_using_subcommand leader" -l json -d 'Print each line as a JSON object; see dlock-leader(1) for the format'
complete -c dlock -n "__fish_dlock_using_subcommand leader" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand leader" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand leader" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand leader" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand note" -s a -l action -d 'Name of the lock; under dlock exec, the default is each lock of the current run' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand note" -l token -d 'Fencing token of the lease; under dlock exec, the default is the token of the current run' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand note" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand note" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand note" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand note" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand note" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand note" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand note" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand note" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand note" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand note" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand note" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand note" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand note" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand note" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand note" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand note" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand note" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand note" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s a -l action -d 'Action to show; this option may be repeated' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand history" -l number -d 'Maximum number of entries to show, newest first' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand history" -l since -d 'Show only entries that ended within a duration (2h) or after a time in UTC (2026-11-22, 2026-11-22T21:04:00Z)' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand history" -l color -d 'Use of colours; auto uses colours on a terminal, unless NO_COLOR is set and not empty' -r -f -a "auto\t'Use colours on a terminal, unless NO_COLOR is set and not empty'
always\t'Always use colours'
never\t'Never use colours'"
complete -c dlock -n "__fish_dlock_using_subcommand history" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand history" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand history" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand history" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand history" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand history" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand history" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand history" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l failed -d 'Show only runs that failed: all runs except those whose command exited with 0'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s f -l follow -d 'Print the entries oldest first, and then print new entries until the user presses Ctrl-C'
complete -c dlock -n "__fish_dlock_using_subcommand history" -l json -d 'Print JSON instead of a table; see dlock-history(1) for the format'
complete -c dlock -n "__fish_dlock_using_subcommand history" -l wide -d 'Show all columns in full, also on a terminal that is too narrow for them'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s a -l action -d 'Name of the lock, instead of NAME' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l once -d 'Delete the success of exec --once, or of exec --once=KEY if KEY is set' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l operator -d 'Name of the operator, as shown in the history [default: USER@HOST]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l reason -d 'Reason to record in the history, as a note' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s a -l action -d 'Name of the lock, instead of NAME' -r -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand release" -l token -d 'Change the lock only if its token is TOKEN; dlock status shows the token' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l slot -d 'Release the holder in slot N, if there are several holders' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l reason -d 'Reason to show to the holder and the waiters, and to record in the history' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l pause -d 'Pause the lock for the given duration, and revoke its lease if there is one' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l operator -d 'Name of the operator, shown with the reason [default: USER@HOST]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand release" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand release" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand release" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l all -d 'Release all holders, if there are several'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s y -l yes -d 'Do not ask for confirmation; required if standard input is not a terminal'
complete -c dlock -n "__fish_dlock_using_subcommand release" -l create -d 'Pause a lock that no process has ever used, for example before its first run'
complete -c dlock -n "__fish_dlock_using_subcommand release" -l resume -d 'Resume a paused lock; this does not affect a current lease'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l older-than -d 'Remove only locks that nobody has used for this time, at least 1h' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l done -d 'Also remove locks with a recorded success of exec --once, which then runs its command again'
complete -c dlock -n "__fish_dlock_using_subcommand prune" -l dry-run -d 'Show the locks, but remove nothing'
complete -c dlock -n "__fish_dlock_using_subcommand prune" -s y -l yes -d 'Do not ask for confirmation; required if standard input is not a terminal'
complete -c dlock -n "__fish_dlock_using_subcommand prune" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand prune" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand prune" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand explain" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand explain" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand explain" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand explain" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l print -d 'Print the table definitions and minimal GRANT statements, without connecting to the server'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l listen -d 'Address of the page: IP:PORT, localhost:PORT or unix:PATH' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l token-file -d 'File with the token that clients must send, at least 16 bytes' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l allow-host -d 'Additional host name with which browsers reach the page, for example the name of a proxy; this option may be repeated' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l interval -d 'Minimum time between two queries to the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand serve" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand serve" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand serve" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand serve" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l session-user -d 'Account of the command\'s own connections, to check whether dlock can see and end its sessions' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l json -d 'Print JSON instead of text; see dlock-doctor(1) for the format'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand copy-to" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand version" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand version" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand version" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand version" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand version" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand version" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand version" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand version" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand version" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand version" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand version" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand version" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand version" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand version" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand version" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand version" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand version" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand help" -l log-format -d 'Format of messages on stderr' -r -f -a "text\t'One line of text for each message, for users'
json\t'One JSON object on one line for each message, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand help" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand help" -l url-file -d 'File that contains the URL, for example a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand help" -l defaults-file -d 'Option file in the format of the mysql client; dlock reads the groups [client] and [dlock]' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand help" -l host -d 'Host name or address of the server, or a list of hosts: HOST[:PORT][,...]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand help" -l port -d 'TCP port of the hosts that specify no port [default: 3306]' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand help" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand help" -l user -d 'User name of the account on the server' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand help" -l password-file -d 'File that contains the password; dlock ignores a trailing newline' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand help" -l database -d 'Database that contains dlock\'s tables' -r -f
complete -c dlock -n "__fish_dlock_using_subcommand help" -l ssl-mode -d 'TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS. The certificate is not verified'
verify_ca\t'TLS with a certificate that is signed by a trusted authority'
verify_identity\t'TLS with a certificate that is signed by a trusted authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand help" -l ssl-ca -d 'PEM file with CA certificates that dlock trusts in addition to the public certificate authorities' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand help" -l ssl-cert -d 'PEM file with the client certificate, if the server requires one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand help" -l ssl-key -d 'PEM file with the private key for the certificate in --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand help" -s q -l quiet -d 'Print only the reason if dlock fails; overrides --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand help" -s v -l verbose -d 'Print a message for each step'
complete -c dlock -n "__fish_dlock_using_subcommand help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand help" -s V -l version -d 'Print version'

# Only the values of some options are files.
complete -c dlock -f

# Prints the names of locks that begin with the current token. fish has expanded no variable in the words.
function __fish_dlock_lock_names
    set -l words (commandline -opc | string replace -r '^~/' $HOME/)
    set -l program dlock
    string match -q '*/*' -- $words[1]; and set program $words[1]
    set -l prefix (commandline -oct | string replace -r '^(--[a-z-]+=|-a)' '')
    command $program complete-names "$prefix" -- $words[2..-1] 2>/dev/null
end

# Returns whether the cursor is after the -- of exec.
function __fish_dlock_in_command
    __fish_dlock_using_subcommand exec; and contains -- -- (commandline -opc)
end

# Completes the command after -- as a command line without dlock.
function __fish_dlock_wrapped_command
    set -l words (commandline -opc)
    set -l dashes (contains -i -- -- $words)
    complete -C (string join ' ' -- (string escape -- $words[(math $dashes + 1)..-1]) (commandline -ct))
end

complete -c dlock -n __fish_dlock_in_command -f -a "(__fish_dlock_wrapped_command)"
complete -c dlock -n "__fish_dlock_using_subcommand exec; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand hold; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand status; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand wait; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand check; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand leader; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand history; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand forget; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
complete -c dlock -n "__fish_dlock_using_subcommand release; and not contains -- -- (commandline -opc)" -f -a "(__fish_dlock_lock_names)"
