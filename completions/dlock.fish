# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_dlock_global_optspecs
    string join \n q/quiet v/verbose log-format= url= url-file= defaults-file= host= port= socket= user= password-file= database= ssl-mode= ssl-ca= ssl-cert= ssl-key= h/help V/version
end

function __fish_dlock_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_dlock_global_optspecs) -- $cmd 2>/dev/null
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

complete -c dlock -n "__fish_dlock_needs_command" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_needs_command" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_needs_command" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_needs_command" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_needs_command" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_needs_command" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_needs_command" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_needs_command" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_needs_command" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_needs_command" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_needs_command" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "exec" -d 'Run a command while holding the lock'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "status" -d 'Show who holds what and who waits'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "wait" -d 'Wait until nobody holds the lock, or until it has succeeded'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "check" -d 'Tell by the exit status whether a token is current, or print SQL that does'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "history" -d 'Show the last runs and how they ended'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "forget" -d 'Forget that a run with --once has succeeded, so that it is run again'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "release" -d 'End a lease by hand, close a lock for a time, or open it again'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "setup" -d 'Create the tables, or print what a database administrator needs'
complete -c dlock -n "__fish_dlock_needs_command" -f -a "doctor" -d 'Check server, account, tables and everything else that dlock rests on'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s a -l action -d 'Name of the lock: 1 to 255 bytes of UTF-8 without control characters' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s t -l ttl -d 'Length of the lease, renewed while the command runs; after a crash, others wait about this long' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s w -l wait -d 'How long to stand in line while another holds the lock, counted from the server\'s first answer; 0 tries once' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s E -l conflict-exit-code -d 'Exit status when another held the lock and time ran out; with 0 that is no failure' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l once -d 'Run the command only if it has not succeeded yet (under this KEY, an image tag for instance); otherwise exit with 0. Who waits leaves with 0 as soon as another succeeds' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l once-per -d 'Run the command only if it has not succeeded for this long by the server\'s clock; otherwise exit with 0, as with --once' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l min-hold -d 'Keep the lock from others until this long after it was granted, also when the command ends sooner; dlock itself does not wait for it' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l db-wait -d 'How long to keep trying to reach the server at the start; 0 tries once' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l grace -d 'Time from SIGTERM to SIGKILL when the lease cannot be kept [default: a sixth of the ttl, at most 10s]' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l max-runtime -d 'Stop the command when it has run for this long, with status 124' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l heartbeat-file -d 'Renew the lease only while this file keeps changing: a command that hangs loses it' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l holder -d 'What status shows as the holder [default: HOST/PID]' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l note -d 'What status shows as the reason' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l history -d 'How many runs of this action to keep in the history; with 0 this one is not recorded' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l metrics-file -d 'Keep metrics of this run in this file, in Prometheus\' text format, for node_exporter\'s textfile collector' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l on-event -d 'Run this with sh -c when the lock is granted, lost, released or skipped, beside the command, for 10s at most and for 1s at most after the end of the run' -r -f -a "(__fish_complete_command)"
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s n -l nonblock -d 'Do not wait: --wait 0, whatever --wait says'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -l fence -d 'Raise the action\'s fence with the grant, so that the command can lock it in a transaction of its own: dlock check --sql prints how'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand exec" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s a -l action -d 'Only this action; may be given several times' -r
complete -c dlock -n "__fish_dlock_using_subcommand status" -l watch -d 'Show it anew at this interval, until q or Ctrl-C [default interval: 1s]: on a terminal a screen with keys (? shows them), elsewhere as text or one JSON document a line' -r
complete -c dlock -n "__fish_dlock_using_subcommand status" -l color -d 'Whether the screen of --watch has colours; auto heeds NO_COLOR' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c dlock -n "__fish_dlock_using_subcommand status" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand status" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand status" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand status" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand status" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand status" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand status" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand status" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand status" -l all -d 'All actions, also those that are free and that nobody waits for'
complete -c dlock -n "__fish_dlock_using_subcommand status" -l json -d 'JSON instead of tables; dlock-status(1) documents its form'
complete -c dlock -n "__fish_dlock_using_subcommand status" -l check -d 'Print nothing; the exit status is 75 if any of the actions is held or closed (lapsed counts as not held), 0 if none is'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand status" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s a -l action -d 'The same as an option' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l done -d 'Wait until it has succeeded by exec --once (under this KEY), not until it is free' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l timeout -d 'How long to wait; 0 looks once' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l db-wait -d 'How long to keep trying to reach the server; 0 tries once' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand wait" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s a -l action -d 'Name of the lock; inside the command of exec, the lock that it runs under' -r
complete -c dlock -n "__fish_dlock_using_subcommand check" -l token -d 'The fencing token to check; inside the command of exec, the one that it was granted' -r
complete -c dlock -n "__fish_dlock_using_subcommand check" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand check" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand check" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand check" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand check" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand check" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand check" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand check" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand check" -l sql -d 'Print the statement that checks the token in a transaction and keeps others from the lock until the transaction ends; needs no server, and --fence on exec'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand check" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s a -l action -d 'Only this action; may be given several times' -r
complete -c dlock -n "__fish_dlock_using_subcommand history" -s n -l number -d 'How many runs to show, the last ones' -r
complete -c dlock -n "__fish_dlock_using_subcommand history" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand history" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand history" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand history" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand history" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand history" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand history" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand history" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand history" -l json -d 'JSON instead of a table; dlock-history(1) documents its form'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand history" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s a -l action -d 'Name of the lock' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l once -d 'Which success: the one under this KEY, or without one the one of --once alone' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l holder -d 'What the history shows as who did it [default: HOST/PID]' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l note -d 'What the history shows as the reason' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand forget" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s a -l action -d 'Name of the lock' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l token -d 'Do it only if this is the lock\'s token, as dlock status shows it' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l reason -d 'Why; the holder, those who wait and the history are told' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l hold-off -d 'Let nobody have the lock for this time, whether it is held now or not' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l holder -d 'Who does it, for the same people [default: USER@HOST]' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand release" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand release" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand release" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand release" -s y -l yes -d 'Do not ask; needed where there is no terminal'
complete -c dlock -n "__fish_dlock_using_subcommand release" -l reopen -d 'End the time of an earlier --hold-off; a lease is left alone'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand release" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand setup" -l print -d 'Print the tables\' definition and the least grants instead; needs no server'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand setup" -s V -l version -d 'Print version'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l log-format -d 'How messages on stderr are written; json is one object a line, as dlock(7) documents it' -r -f -a "text\t'A line for people'
json\t'An object on a line, for programs'"
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l url -d 'Server and database, as mysql://USER@HOST/DATABASE' -r
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l url-file -d 'File that holds the URL, such as a mounted Kubernetes secret' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l defaults-file -d 'Option file as of the mysql client; groups [client] and [dlock] are read' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l host -d 'Host name or address of the server' -r
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l port -d 'TCP port of the server [default: 3306]' -r
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l socket -d 'Unix socket of the server, instead of host and port' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l user -d 'Account to log in with' -r
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l password-file -d 'File that holds the password; a line end after it is dropped' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l database -d 'Database that holds dlock\'s tables' -r
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l ssl-mode -d 'What TLS must prove [default: verify_identity; disabled for loopback and Unix sockets]' -r -f -a "disabled\t'No TLS'
required\t'TLS without a check of the certificate'
verify_ca\t'TLS, and the certificate is signed by a known authority'
verify_identity\t'TLS, and the certificate is signed by a known authority and names the host'"
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l ssl-ca -d 'PEM file with certificate authorities to trust besides the public ones' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l ssl-cert -d 'PEM file with dlock\'s own certificate, when the server asks for one' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l ssl-key -d 'PEM file with the key of --ssl-cert' -r -F
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -l json -d 'JSON instead of lines; dlock-doctor(1) documents its form'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -s q -l quiet -d 'Say nothing but why dlock failed; wins over --verbose'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -s v -l verbose -d 'Say what happens, step by step'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dlock -n "__fish_dlock_using_subcommand doctor" -s V -l version -d 'Print version'
