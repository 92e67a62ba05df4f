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
